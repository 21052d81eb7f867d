package translate

import "github.com/reprise-tt/reprise/sim/emu/internal/rv32"

// Firmware and kernels name most addresses by constants, with a lui before or far before the
// access. Guesses follow them along straight code and forward jumps. Control may have come from
// elsewhere, so code compares a register with its guess once.

// value is what is guessed of a register: nothing, its value, or only the area of an address.
type value struct {
	known bool
	v     uint32
	area  area // of v, or of the sum of v and something else
}

type area uint8

const (
	areaL1        area = iota // also if nothing is known
	areaLocal                 // local RAM
	areaRegisters             // registers of which some are words
	areaOthers                // other registers
	areaIgnored               // the register that ignores stores
)

func areaOf(addr uint32) area {
	switch {
	case addr < LocalBase:
		return areaL1
	case addr-LocalBase < mostLocal:
		return areaLocal
	case addr >= RegistersBase && addr-RegistersBase < RegistersBytes:
		return areaRegisters
	}
	return areaOthers
}

type values [rv32.Sink + 1]value

// apply changes the guesses as an instruction does, other than branches and stores.
func (x *values) apply(o rv32.Inst) {
	a, b, d := x[o.Rs1], x[o.Rs2], value{}
	switch o.Code {
	case rv32.LI:
		d = constantValue(uint32(o.Imm))
	case rv32.ADDI:
		if d = a; a.known {
			d = constantValue(a.v + uint32(o.Imm))
		}
	case rv32.ADD:
		switch {
		case a.known && b.known:
			d = constantValue(a.v + b.v)
		case a.area != areaL1:
			d.area = a.area
		default:
			d.area = b.area
		}
	}
	x[o.Rd] = d
	x[0], x[rv32.Sink] = constantValue(0), value{}
}

func constantValue(v uint32) value { return value{true, v, areaOf(v)} }

// calls forgets what a called function needn't keep (RISC-V calling convention).
func (x *values) calls() {
	for r := range x {
		if saved := r >= 2 && r <= 4 || r == 8 || r == 9 || r >= 18 && r <= 27; !saved {
			x[r] = value{}
		}
	}
	x[0] = constantValue(0)
}

// guess returns what is guessed of the address of each load and store.
func (p *program) guess() []value {
	all := make([]value, len(p.ops))
	nothing := values{0: constantValue(0)}
	x, jumps := nothing, false
	jumped := map[int]values{} // guesses at jumps forward, by target
	for k, op := range p.ops {
		if from, ok := jumped[k]; ok && jumps {
			x = from
		}
		jumps = false
		o := op.Inst()
		remember := func() {
			if to := k + int(o.Imm); o.Imm > 0 && to < len(p.ops) {
				if _, ok := jumped[to]; !ok {
					jumped[to] = x
				}
			}
		}
		switch kindOf(o.Code) {
		case load, store:
			if all[k] = x[o.Rs1]; all[k].known {
				all[k] = constantValue(all[k].v + uint32(o.Imm))
			}
			if kindOf(o.Code) == load {
				x.apply(o)
			}
		case branch:
			remember()
		case jump:
			switch {
			case o.Rd != rv32.Sink:
				x.calls()
			case o.Code == rv32.JAL:
				remember()
				x, jumps = nothing, true
			default:
				x, jumps = nothing, true
			}
		default:
			x.apply(o)
		}
	}
	return all
}

// certain returns where a load or store goes if its guessed address is right: a byte of L1 or local
// RAM that exists, a register's slot, the register that ignores stores, or others, which leave. ok
// is false if code has to look.
func (e *emitter) certain(i int, o rv32.Inst, s slotsOf) (a area, at uint32, ok bool) {
	g, n := e.guesses[i-e.first], o.Code.Bytes()
	if !g.known {
		return 0, 0, false
	}
	if g.v&(n-1) != 0 {
		return areaOthers, 0, true
	}
	switch g.area {
	case areaL1:
		return areaL1, g.v, e.base < LocalBase && g.v < e.base+pageBytes
	case areaLocal:
		return areaLocal, g.v - LocalBase, g.v-LocalBase < leastLocal
	case areaRegisters:
		if e.registers == nil {
			return 0, 0, false
		}
		if slot := s.of(e.registers)[(g.v-RegistersBase)/4]; slot != 0 && n == 4 {
			return areaRegisters, uint32(slot), true
		}
	case areaOthers:
		if r := e.registers; s == stores && n == 4 && r != nil && g.v == r.Ignored {
			return areaIgnored, 0, true
		}
	}
	return areaOthers, 0, true
}

package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/isa"

// The scalar unit, ThCon: general-purpose registers of each thread
// (tt-isa-documentation WormholeB0/TensixTile/TensixCoprocessor/ScalarUnit.md).

// NumGPRs is the number of general-purpose registers of a thread.
const NumGPRs = 64

// GPR returns register i of thread n.
func (e *Engine) GPR(n, i int) uint32 { return e.threads[n].gpr[i] }

// SetGPR sets register i of thread n.
func (e *Engine) SetGPR(n, i int, v uint32) { e.threads[n].gpr[i] = v }

func (e *Engine) setdmareg(t *thread, a setdmaregArgs) bool {
	if a.signals != 0 {
		return e.unsupported("signals mode")
	}
	v, r := a.low|a.high<<14, &t.gpr[a.half/2]
	if a.half&1 != 0 {
		*r = *r&0xFFFF | v<<16
	} else {
		*r = *r&^0xFFFF | v
	}
	return true
}

func (e *Engine) adddmareg(t *thread, a adddmaregArgs) bool {
	if a.constant != 0 {
		return e.unimplemented("constant operand")
	}
	t.gpr[a.dst] = t.gpr[a.a] + t.gpr[a.b]
	return true
}

func (e *Engine) muldmareg(t *thread, a adddmaregArgs) bool {
	if a.constant != 0 {
		return e.unimplemented("constant operand")
	}
	t.gpr[a.dst] = t.gpr[a.a] & 0xFFFF * (t.gpr[a.b] & 0xFFFF)
	return true
}

func (e *Engine) dmanop(t *thread) bool { return true }

const firstFlop, endFlop = 52, 152

func (e *Engine) reg2flop(t *thread, a reg2flopArgs) bool {
	switch {
	case !e.wormhole:
		return e.unsupported("Blackhole's REG2FLOP")
	case a.flop >= endFlop-firstFlop:
		return e.undefined("flop %d: want less than %d", a.flop, endFlop-firstFlop)
	case a.context != 0 || a.offset != 0 || a.target != 0:
		return e.unsupported("context %d, byte offset %d, target %d: want 0", a.context, a.offset, a.target)
	case a.size != 1 && a.size != 2:
		return e.unsupported("size %d: want 1 or 2", a.size)
	}
	return e.storeConfig(t.field(isa.ThreadStateID), a.flop+firstFlop, t.gpr[a.gpr])
}

// Only stores to streams are allowed: one elsewhere might push instructions.
func (e *Engine) storereg(t *thread, a storeregArgs) bool {
	const registers, streams, streamsEnd = 0xFFB00000, 0xFFB40000, 0xFFB80000
	addr := registers | a.addr<<2
	if addr < streams || addr >= streamsEnd {
		return e.unsupported("store to %#x: want a stream's register", addr)
	}
	return e.tile.StoreRegister(addr, t.gpr[a.gpr])
}

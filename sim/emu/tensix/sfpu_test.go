package tensix

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/goldentest"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// The golden cases of testdata/sfpu.txt were compared with ttsim 1.10.0. A line has the chip, an
// instruction and the number of the case, which decides the state; then the FNV-1a hash of the
// state afterwards, or the category of the refusal.
var updateSFPU = flag.Bool("update-sfpu", false, "rewrite testdata/sfpu.txt with what the package computes")

type bitSource struct{ goldentest.Bits }

func (s *bitSource) below(n uint64) uint32 { return uint32(s.Below(n)) }

var laneSpecials = [...]uint32{
	0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 1, 0x007FFFFF,
	0x00800000, 0x7F7FFFFF, 0x80800000, 0x40000000, 0x3F000000, 0x3FC00000, 0x40400000, 0xFF800001, 0x7FFFFFFF,
}

// value is [goldentest.Bits.Number], with small integers in class 6.
func (s *bitSource) value(class uint32) uint32 {
	v := s.Number(uint64(class), laneSpecials[:])
	if class == 6 {
		v = s.below(128) - 64
	}
	return v
}

const goldenRows = 32

type sfpuCase struct {
	chip   chip.Arch
	word   uint32
	number uint64
}

func sfpuCases() (cases []sfpuCase) {
	for _, c := range archs {
		for op := uint32(opSFPLOAD); op <= lastSFPU; op++ {
			if op == opSFPLOADMACRO { // ttsim doesn't have it
				continue
			}
			for n := range uint64(32) {
				s := bitSource{goldentest.Bits(uint64(op)<<32 | n)}
				word := op<<24 | goldenFields(&s, op, uint32(n))
				if op == opSFPSHFT2 && word&15 == 6 { // nor this mode
					continue
				}
				cases = append(cases, sfpuCase{chip: c, word: word, number: n})
			}
		}
	}
	return cases
}

func goldenFields(s *bitSource, op, n uint32) uint32 {
	mode, dst, c, b, a := n, s.below(8), s.below(16), s.below(16), s.below(16)
	if n >= 16 {
		mode = [...]uint32{0, 1, 2, 0, 1, 3, 8, 10}[n%8]
	}
	if s.below(24) == 0 {
		dst = s.below(16)
	}
	switch op {
	case opSFPLOAD, opSFPSTORE:
		return 2*s.below(8) | mode<<16 | dst<<20
	case opSFPLOADI:
		return s.below(1<<16) | mode<<16 | dst<<20
	case opSFPLUT:
		return mode%8<<16 | dst<<20
	case opSFPMULI, opSFPADDI:
		return mode%2 | dst<<4 | s.below(1<<16)<<8
	case opSFPCONFIG:
		return mode%2 | n/2<<4 | [...]uint32{0, 0, 0x104, 0xABC}[s.below(4)]<<8
	case opSFPSETCC:
		return mode%8 | c<<8
	case opSFPENCC:
		return mode | s.below(4)<<12&-(mode>>3)
	case opSFPPUSHC, opSFPPOPC, opSFPCOMPC, opSFPTRANSP, opSFPNOP:
		return 0
	case opSFPMAD, opSFPADD, opSFPMUL, opSFPMUL24:
		if op != opSFPMAD && s.below(8) != 0 {
			a = lregOne
		}
		if (op == opSFPMUL || op == opSFPMUL24) && s.below(8) != 0 {
			a, c = s.below(16), lregZero
		}
		return mode%4 | dst<<4 | c<<8 | b<<12 | a<<16
	case opSFPMOV:
		if mode == 8 {
			c = lregZero
		}
		return mode | dst<<4 | c<<8
	case opSFPNOT, opSFPXOR:
		return dst<<4 | c<<8
	case opSFPLUTFP32:
		return mode%4 | dst<<4
	case opSFPSETSGN, opSFPAND, opSFPOR, opSFPSETEXP, opSFPIADD, opSFPDIVP2, opSFPSHFT, opSFPSHFT2:
		immediate := map[uint32]uint64{opSFPSETSGN: 2, opSFPAND: 16, opSFPOR: 16, opSFPSETEXP: 256, opSFPSHFT2: 16}[op]
		if immediate == 0 {
			immediate = 128
		}
		i := s.below(immediate)
		if mode%2 == 0 && s.below(4) != 0 {
			i = 0
		}
		return mode | dst<<4 | c<<8 | i<<12
	}
	return mode | dst<<4 | c<<8
}

func (c *sfpuCase) state() *Engine {
	s := bitSource{goldentest.Bits(c.number<<16 ^ uint64(c.word>>24))}
	e := New(c.chip, nil)
	e.allocate()
	u := &e.sfpu
	classes := [2]uint32{s.below(8), s.below(8)}
	for r := range u.l {
		for lane := range u.l[r] {
			class := classes[s.below(2)]
			if s.below(10) == 0 {
				class = s.below(8)
			}
			if u.l[r][lane] = s.value(class); r > 0 && s.below(8) == 0 {
				u.l[r][lane] = u.l[r-1][lane] // for comparisons
			}
		}
	}
	if s.below(2) == 0 {
		u.l[0] = broadcast([...]uint32{0, 4, 0x100, 0x104}[s.below(4)])
	}
	u.l[lregZero], u.l[lregOne] = broadcast(0), broadcast(fp32One)
	for lane := range u.random {
		u.random[lane] = uint32(s.Next())
	}
	if s.below(4) == 0 {
		u.laneConfig = [...]uint32{4, 0x100, 0x104}[s.below(3)]
	}
	u.cc = condition{on: s.below(6) != 0, lanes: allLanes}
	if op := c.word >> 24; op != opSFPCONFIG && s.below(2) == 0 {
		u.cc.lanes = uint32(s.Next())
	}
	u.depth = int(s.below(9))
	for i := range u.stack {
		u.stack[i] = condition{on: s.below(6) != 0, lanes: uint32(s.Next())}
	}
	for r := range goldenRows {
		for column := range e.dst.rows[r] {
			e.dst.rows[r][column] = uint16(s.Next())
		}
		e.dst.valid[r] = s.below(3) != 0
	}
	set := func(f isa.Config, v uint32) {
		p := e.places[f]
		e.threads[1].bank[p.Word] |= v << p.Shift
	}
	set(isa.Fp32SFPU, s.below(2))
	set(isa.SrcBFormat, [...]uint32{0, 1, 5, 5, 6, 7, 9, 15, 3}[s.below(9)])
	return e
}

func (e *Engine) sfpuHash() uint64 {
	h := fnv.New64a()
	u := &e.sfpu
	for _, v := range []any{u.l, u.random, u.cc.on, u.cc.lanes, uint32(u.depth), u.laneConfig, u.templates, u.sequences, u.macro,
		e.dst.rows[:goldenRows], e.dst.valid[:goldenRows]} {
		if err := binary.Write(h, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	for _, c := range u.stack {
		fmt.Fprintf(h, "%v %d", c.on, c.lanes)
	}
	return h.Sum64()
}

func TestTheVectorUnitDoesWhatTtsimDoes(t *testing.T) {
	var lines []string
	for _, c := range sfpuCases() {
		e := c.state()
		result := ""
		if e.execute(&e.threads[1], c.word) {
			result = fmt.Sprintf("%016x", e.sfpuHash())
		} else if e.fault != nil {
			result = e.fault.Category.String()
		}
		lines = append(lines, fmt.Sprintf("%v %08x #%d: %s", c.chip, c.word, c.number, result))
	}
	goldentest.Compare(t, "testdata/sfpu.txt", *updateSFPU, lines)
}

func TestTheVectorUnitDoesTheSameAgain(t *testing.T) {
	effort.Long(t)
	planned := map[uint32]int{}
	for _, c := range sfpuCases() {
		// A copy of the instruction in a state in which nothing is refused makes the plan.
		before := vectorEngine(c.chip)
		before.execute(&before.threads[1], c.word)
		if before.plans == nil || before.planOf(c.word).word != c.word {
			continue
		}
		planned[c.word>>24]++
		for n := range uint64(8) {
			c.number = n
			first, again := c.state(), c.state()
			*again.planOf(c.word) = *before.planOf(c.word)
			want, got := first.execute(&first.threads[1], c.word), again.execute(&again.threads[1], c.word)
			if got != want || got && again.sfpuHash() != first.sfpuHash() || again.threads[1].d != first.threads[1].d ||
				fmt.Sprint(again.fault) != fmt.Sprint(first.fault) {
				t.Errorf("%v %s %#08x in state %d: done %v, %v; at first %v, %v", c.chip, mnemonic(c.word), c.word, n, got, again.fault, want,
					first.fault)
			}
		}
	}
	for op := range planners {
		if planners[op] != nil && planned[uint32(op)] == 0 {
			t.Errorf("no %s is planned", mnemonic(uint32(op)<<24))
		}
	}
}

func TestRandomNumbersFollowFromTheSeed(t *testing.T) {
	var s sfpu
	s.seed(0x12345678)
	if s.random[0] == s.random[31] {
		t.Errorf("lanes 0 and 31 begin with the same random number %#x", s.random[0])
	}
	last := s.random[31]
	if want := nextRandom(nextRandom(last)); s.random[30] != want {
		t.Errorf("lane 30 has %#x, want the second number after lane 31's, %#x", s.random[30], want)
	}
}

// The immediate's low bits name the register (tt-isa-documentation SFPSHFT2.md, SHFT_IMM). ttsim
// doesn't have this.
func TestSFPSHFT2ByImmediate(t *testing.T) {
	for _, arch := range archs {
		for _, tt := range []struct{ immediate, from, value, want uint32 }{
			{20, 4, 0xF, 0x00F00000},
			{5, 5, 0xF800000F, 0x000001E0},
			{0xFFC, 12, 0xF800000F, 0x0F800000}, // -4: to the right
			{0xFF3, 3, 0x0000A5A5, 5},           // -13
			{0, 0, 0x1234, 0x1234},
		} {
			e := vectorEngine(arch)
			e.sfpu.l[tt.from] = broadcast(tt.value)
			if err := run(e, opSFPSHFT2<<24|tt.immediate<<12|7<<4|6); err != nil {
				t.Fatal(err)
			}
			if got := e.sfpu.l[7]; got != broadcast(tt.want) {
				t.Errorf("%v, immediate %#x: %#x, want %#x", arch, tt.immediate, got[0], tt.want)
			}
		}
	}
}

func vectorEngine(arch chip.Arch) *Engine {
	e := New(arch, newTestTile(arch))
	e.allocate()
	u := &e.sfpu
	for r := range writable {
		for lane := range u.l[r] {
			u.l[r][lane] = uint32(124+(lane+r)%6)<<23 | uint32(lane*0x1234567+r*0x89ABC)&0x807FFFFF
		}
	}
	for row := range e.dst.rows {
		for i := range e.dst.rows[row] {
			e.dst.rows[row][i] = uint16(row*0x1200+i*0x3300)&0xFF00 | uint16(124+(row+i)%6)
		}
	}
	return e
}

func exponential(arch chip.Arch) (words []uint32) {
	op := func(op, mod, dst, c, rest uint32) {
		words = append(words, op<<24|mod|dst<<4|c<<8|rest)
		switch {
		case arch == chip.Blackhole:
		case op == opSFPMAD, op == opSFPSWAP:
			words = append(words, opSFPNOP<<24)
		}
	}
	words = append(words, opSFPLOAD<<24|sfpuBF16<<16)
	op(opSFPMAD, 0, 0, 13, 12<<12|0<<16)
	op(opSFPSWAP, 1, 0, 14, 0)
	op(opSFPSWAP, 9, 0, lregZero, 0)
	op(opSFPEXEXP, 0, 1, 0, 0)
	op(opSFPEXMAN, 0, 2, 0, 0)
	op(opSFPSHFT, 0, 2, 1, 0)
	op(opSFPSETEXP, 1, 1, 2, 127<<12)
	op(opSFPMAD, 0, 3, 7, 1<<16|6<<12)
	op(opSFPMAD, 0, 3, 5, 1<<16|3<<12)
	op(opSFPMAD, 0, 3, 4, 1<<16|3<<12)
	op(opSFPSETEXP, 2, 2, 3, 0)
	op(opSFP_STOCH_RND, 1, 2, 2, 0)
	return append(words, opSFPSTORE<<24|2<<20|sfpuBF16<<16|64)
}

func BenchmarkExponential(b *testing.B) {
	for _, arch := range archs {
		b.Run(arch.String(), func(b *testing.B) {
			e := vectorEngine(arch)
			for r, v := range map[int]uint32{12: 0x3FB8AA3B, 13: 0x42FE0000, 14: 0x437F0000, 4: 0x3EE61789, 5: 0x3EF7B9E8, 6: 0xBC4806A5,
				7: 0x3DA1B996} {
				e.sfpu.l[r] = broadcast(v)
			}
			words := exponential(arch)
			n := uint32(len(words))
			e.PushRun(1, opREPLAY<<24|n<<4|1, true)
			for _, w := range words {
				e.PushRun(1, w, true)
			}
			for b.Loop() {
				for range 32 {
					e.PushRun(1, opREPLAY<<24|n<<4, true)
				}
			}
			if e.Fault() != nil {
				b.Fatal(e.Fault())
			}
		})
	}
}

func BenchmarkVector(b *testing.B) {
	list := []uint32{
		opSFPLOAD<<24 | sfpuBF16<<16, opSFPLOAD<<24 | sfpuFP32<<16, opSFPLOADI<<24 | 0x3F80, opSFPSTORE<<24 | sfpuBF16<<16,
		opSFPSTORE<<24 | sfpuFP32<<16, opSFPLUT<<24 | 3<<20 | 4<<16, opSFPSETCC<<24 | 6, opSFPENCC<<24 | 10 | 3<<12, opSFPTRANSP << 24,
		opSFPNOP << 24,
	}
	for _, o := range [][2]uint32{ // and their fields but the destination
		{opSFPMAD, 2<<8 | 1<<12}, {opSFPMUL, 9<<8 | 1<<12}, {opSFPADD, 2<<8 | 1<<12 | 10<<16}, {opSFPMULI, 0x3F90 << 8},
		{opSFPADDI, 0x3F90 << 8}, {opSFPMOV}, {opSFPABS, 1}, {opSFPSETSGN}, {opSFPSETEXP, 2}, {opSFPSETMAN}, {opSFPEXEXP}, {opSFPEXMAN},
		{opSFPDIVP2, 1<<12 | 1}, {opSFPIADD, 4}, {opSFPIADD, 5 | 7<<12}, {opSFPSHFT, 3<<12 | 1}, {opSFPSHFT}, {opSFPAND}, {opSFPXOR},
		{opSFPNOT}, {opSFPLZ}, {opSFPCAST}, {opSFP_STOCH_RND, 1}, {opSFP_STOCH_RND, 2}, {opSFPSWAP, 1}, {opSFPSWAP}, {opSFPSWAP, 2},
		{opSFPLUTFP32, 2}, {opSFPARECIP}, {opSFPGT, 8}, {opSFPMUL24, 9 << 8},
	} {
		list = append(list, o[0]<<24|3<<4|o[1])
	}
	for _, w := range list {
		for _, enabled := range []uint32{allLanes, 0x5555FFFF} {
			op := w >> 24
			name := fmt.Sprintf("%s_%x", mnemonic(w), w&0xFFFFFF)
			if enabled != allLanes {
				name += "/some"
			}
			b.Run(name, func(b *testing.B) {
				e := vectorEngine(chip.Blackhole)
				e.sfpu.cc = condition{on: true, lanes: enabled}
				saved := e.sfpu
				t := &e.threads[1]
				for i := 0; b.Loop(); i++ {
					if op == opSFPSETCC || op == opSFPENCC || i&15 == 0 {
						e.sfpu.cc = saved.cc
						e.sfpu.l[3] = saved.l[3]
					}
					if !e.issue(t, w) {
						b.Fatal(e.Fault())
					}
				}
			})
		}
	}
}

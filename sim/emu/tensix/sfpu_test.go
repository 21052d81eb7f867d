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
	for _, op := range []uint32{opSFPLOAD, opSFPSTORE, opSFPMAD, opSFPMUL, opSFPADD, opSFPLOADI, opSFPMOV, opSFPEXEXP, opSFPEXMAN,
		opSFPSETEXP, opSFPSETMAN, opSFPSETSGN, opSFPMULI, opSFPADDI, opSFPSHFT, opSFPIADD, opSFPSETCC, opSFPSWAP, opSFP_STOCH_RND,
		opSFPNOP, opSFPDIVP2, opSFPNOT} {
		if planned[op] == 0 {
			t.Errorf("no %s is planned", mnemonic(op<<24))
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

const (
	template0 = 4
	template1 = 5
	aNop      = 2
	aStore    = 3
	toStaging = 0x40
	asB       = 0x80
)

func after(cycles uint32) uint32 { return cycles << 3 }

func sequence(simple, mad, round, store uint32) uint32 {
	return simple | mad<<8 | round<<16 | store<<24
}

const (
	countInstructions = 0xF00
	store32           = sfpuInt32
)

type macroState struct {
	L   lregs
	Dst stored
}

type (
	prog   = []uint32
	lregs  = map[int]uint32
	stored = map[uint32]uint32
)

var simpleOnly = prog{sequence(template0, 0, 0, 0)}

// LReg n and the data in Dst at address 16n hold n at first. Macros and stores have data of 32
// bits.
var macroPrograms = []struct {
	name      string
	templates prog // sfpNotTo(12) if there is none
	sequences prog
	options   uint32 // of macros
	cycles    bool   // delays count cycles, not instructions
	list      prog
	want      macroState
	blackhole bool // only there
}{
	{name: "each sub-unit in its cycle", sequences: prog{sequence(template0, 0, 0, aStore|after(1))}, options: store32,
		list: prog{loadMacro(0, 0, 16), sfpNop, sfpNop},
		want: macroState{lregs{0: ^uint32(1)}, stored{16: ^uint32(1)}}},
	{name: "an instruction that isn't in time", sequences: prog{sequence(template0, 0, 0, aStore|after(1))}, options: store32,
		list: prog{loadMacro(0, 0, 16), sfpNop},
		want: macroState{lregs{0: ^uint32(1)}, nil}},
	{name: "the high half of the registers", sequences: simpleOnly,
		list: prog{loadMacro(0, 6, 16), sfpNop},
		want: macroState{lregs{6: ^uint32(1)}, nil}},
	{name: "the fourth sequence", sequences: prog{0, 0, 0, sequence(template0, 0, 0, 0)},
		list: prog{loadMacro(3, 1, 32), sfpNop},
		want: macroState{lregs{1: ^uint32(2)}, nil}},
	{name: "registers are read as they were before the cycle", sequences: simpleOnly,
		list: prog{loadMacro(0, 2, 16), opSFPLOADI<<24 | 2<<16 | 2<<20 | 77, opSFPMAD<<24 | 10<<16 | 9<<12 | 9<<8 | 3<<4},
		want: macroState{lregs{2: ^uint32(1), 3: 0}, nil}},
	{name: "a store of what the same cycle overwrites", sequences: prog{sequence(0, 0, 0, aStore)}, options: store32,
		list: prog{loadMacro(0, 2, 16), opSFPLOADI<<24 | 2<<16 | 2<<20 | 77},
		want: macroState{lregs{2: 77}, nil}}, // Dst gets what it has
	{name: "the staging register", sequences: prog{sequence(template0|toStaging, 0, 0, aStore|toStaging|after(1))}, options: store32,
		list: prog{loadMacro(0, 0, 16), sfpNop, sfpNop},
		want: macroState{lregs{0: 1}, stored{16: ^uint32(1)}}},
	{name: "a store of a register of its own", templates: prog{opSFPSTORE<<24 | 5<<20},
		sequences: prog{sequence(0, 0, 0, template0|asB)}, options: store32,
		list: prog{loadMacro(0, 0, 16), sfpNop},
		want: macroState{lregs{0: 1}, stored{16: 5}}},
	{name: "a store in the mode of the load", sequences: prog{sequence(0, 0, 0, aStore)}, options: 1 << 4,
		list: prog{loadMacro(0, 0, 16), sfpNop}, want: macroState{lregs{0: 1}, nil}},
	{name: "the loaded register as VB", templates: prog{opSFPIADD<<24 | 4 | 12<<4 | 5<<8},
		sequences: prog{sequence(template0|asB, 0, 0, 0)},
		list:      prog{loadMacro(0, 0, 48), sfpNop},
		want:      macroState{lregs{0: 3 + 5}, nil}},
	{name: "a shift by an immediate", templates: prog{opSFPSHFT2<<24 | 6 | 12<<4 | 4<<12},
		sequences: prog{sequence(0, 0, template0|asB, 0)},
		list:      prog{loadMacro(0, 0, 48), sfpNop},
		want:      macroState{lregs{0: 3 << 4}, nil}},
	{name: "a shift by a register", templates: prog{opSFPSHFT2<<24 | 5 | 12<<4 | 4<<8},
		sequences: prog{sequence(0, 0, template0|asB, 0)},
		list:      prog{loadMacro(0, 0, 48), sfpNop},
		want:      macroState{lregs{0: 3 << 4}, nil}},
	{name: "a product comes two cycles later", templates: prog{opSFPMAD<<24 | 10<<16 | 10<<12 | 9<<8 | 12<<4},
		sequences: prog{sequence(0, template0|asB, 0, 0), sequence(aNop|after(7), 0, 0, 0)},
		list:      prog{loadMacro(1, 7, 112), loadMacro(0, 0, 48), sfpMove(0, 1), sfpMove(0, 2), sfpMove(0, 3), sfpNop, sfpNop, sfpNop, sfpNop},
		want:      macroState{lregs{0: 0, 1: 3, 2: 3, 3: 0}, nil}},
	{name: "LReg 7 says which register is multiplied", templates: prog{opSFPMAD<<24 | 4 | 10<<12 | 9<<8 | 12<<4},
		sequences: prog{sequence(0, template0, 0, 0)},
		list:      prog{opSFPLOADI<<24 | 2<<16 | 7<<20 | 11, loadMacro(0, 0, 0), sfpNop, sfpNop}, // -1 * 1 + 0
		want:      macroState{lregs{0: 0xBF800000, 7: 11}, nil}},
	{name: "LReg 7 says where the sum goes", templates: prog{opSFPMAD<<24 | 8 | 9<<16 | 9<<12 | 12<<4},
		sequences: prog{sequence(0, template0, 0, 0)}, blackhole: true,
		list: prog{opSFPLOADI<<24 | 0<<16 | 0x3F80, opSFPSTORE<<24 | 4<<16 | 16, opSFPLOADI<<24 | 2<<16 | 7<<20 | 5, loadMacro(0, 0, 16),
			sfpNop, sfpNop},
		want: macroState{lregs{0: 0x3F800000, 5: 0x3F800000, 7: 5}, stored{16: 0x3F800000}}},
	{name: "the greater number", templates: prog{opSFPSWAP<<24 | 9 | 12<<4 | 5<<8},
		sequences: prog{sequence(template0|asB, 0, 0, 0)},
		list:      prog{loadMacro(0, 0, 48), sfpNop, sfpNop},
		want:      macroState{lregs{0: 5, 5: 3}, nil}},
	{name: "the greater number by an unnamed mode", templates: prog{opSFPSWAP<<24 | 15 | 12<<4 | 9<<8},
		sequences: prog{sequence(template0|asB, 0, 0, 0)},
		list:      prog{loadMacro(0, 0, 48), sfpNop, sfpNop},
		want:      macroState{lregs{0: 3}, nil}},
	{name: "both numbers to one register: VC's stays", templates: prog{opSFPSWAP<<24 | 1 | 12<<4},
		sequences: simpleOnly,
		list:      prog{loadMacro(0, 0, 48), sfpNop, sfpNop},
		want:      macroState{lregs{0: 0x3B000000}, nil}}, // of LReg 12
	{name: "a condition ends in the cycle after it was set", templates: prog{opSFPSETCC<<24 | 6 | 12<<4, opSFPENCC<<24 | 13<<4},
		sequences: prog{sequence(template0, 0, 0, 0), sequence(template1, 0, 0, 0)},
		list:      prog{loadMacro(0, 0, 16), loadMacro(1, 1, 32), sfpMove(5, 2), sfpMove(6, 3)}, // LReg 0 isn't 0: no lane moves 5
		want:      macroState{lregs{0: 1, 1: 2, 3: 6}, nil}},
	{name: "a scheduled instruction replaces another one", sequences: simpleOnly,
		list: prog{loadMacro(0, 0, 16), opSFPIADD<<24 | 5 | 3<<4 | 3<<8 | 100<<12, sfpNop},
		want: macroState{lregs{0: ^uint32(1)}, nil}},
	{name: "the last one scheduled for a cycle is executed", templates: prog{sfpNotTo(12), opSFPMOV<<24 | 13<<4 | 1},
		sequences: prog{sequence(template0|after(1), 0, 0, 0), sequence(template1, 0, 0, 0)},
		list:      prog{loadMacro(0, 0, 16), loadMacro(1, 1, 32), sfpNop, sfpNop},
		want:      macroState{lregs{0: 1, 1: 0x80000002}, nil}},
	{name: "a sequence without an instruction drops none", sequences: prog{sequence(template0|after(1), 0, 0, 0), 0},
		list: prog{loadMacro(0, 0, 16), loadMacro(1, 1, 32), sfpNop},
		want: macroState{lregs{0: ^uint32(1), 1: 2}, nil}},
	{name: "what a sub-unit doesn't have keeps it busy", sequences: prog{sequence(0, template0, 0, 0)},
		list: prog{loadMacro(0, 0, 16), opSFPMAD<<24 | 9<<16 | 9<<12 | 9<<8 | 3<<4},
		want: macroState{lregs{0: 1}, nil}},
	{name: "delays in instructions of the vector unit", sequences: prog{sequence(template0|after(1), 0, 0, 0)},
		list: prog{loadMacro(0, 0, 16), opINCRWC << 24, opINCRWC << 24, opINCRWC << 24},
		want: macroState{lregs{0: 1}, nil}},
	{name: "delays in cycles", cycles: true, sequences: prog{sequence(template0|after(1), 0, 0, 0)},
		list: prog{loadMacro(0, 0, 16), opINCRWC << 24, opINCRWC << 24},
		want: macroState{lregs{0: ^uint32(1)}, nil}},
	{name: "an instruction of the sync unit lets cycles pass", cycles: true, sequences: prog{sequence(template0|after(7), 0, 0, 0)},
		list: prog{loadMacro(0, 0, 16), semInit1},
		want: macroState{lregs{0: ^uint32(1)}, nil}},
	{name: "a store goes to where the macro loaded from", sequences: prog{sequence(0, 0, 0, aStore|after(1))}, options: store32,
		list: prog{loadMacro(0, 0, 16), opINCRWC<<24 | 4<<14, opSFPLOADI<<24 | 2<<16 | 77, sfpNop, opSETRWC<<24 | 4},
		want: macroState{lregs{0: 77}, stored{16: 77}}},
}

func loadMacro(index, lreg, address uint32) uint32 {
	return opSFPLOADMACRO<<24 | (index<<2|lreg&3)<<20 | sfpuInt32<<16 | address | lreg>>2
}

func sfpNotTo(template uint32) uint32 { return opSFPNOT<<24 | template<<4 }

func sfpMove(from, to uint32) uint32 { return opSFPMOV<<24 | from<<8 | to<<4 }

func macroEngine(t *testing.T, arch chip.Arch, templates, sequences []uint32, options uint32) *Engine {
	t.Helper()
	e := New(arch, newTestTile(arch))
	e.allocate()
	for n := range uint32(writable) {
		e.sfpu.l[n] = broadcast(n)
		v := broadcast(n)
		e.encodeLanes(sfpuInt32, &v)
		e.scatter(place{row: 16 * n}, true, &v, allLanes)
	}
	for i, w := range templates {
		if w>>24 == opSFPSTORE { // SFPCONFIG records it
			e.sfpu.templates[i] = w
			continue
		}
		if !e.execute(&e.threads[1], w) {
			t.Fatal(e.fault)
		}
	}
	copy(e.sfpu.sequences[:], sequences)
	e.sfpu.macro = options
	return e
}

func TestProgramsOfMacros(t *testing.T) {
	for _, arch := range archs {
		for _, tt := range macroPrograms {
			if tt.blackhole && arch != chip.Blackhole {
				continue
			}
			t.Run(arch.String()+"/"+tt.name, func(t *testing.T) {
				if tt.templates == nil {
					tt.templates = prog{sfpNotTo(12)}
				}
				if !tt.cycles {
					tt.options |= countInstructions
				}
				e := macroEngine(t, arch, tt.templates, tt.sequences, tt.options)
				for _, w := range tt.list {
					if e.PushRun(1, w, true); e.fault != nil {
						t.Fatal(e.fault)
					}
				}
				got := macroState{lregs{}, stored{}}
				for n := range writable {
					if v := e.sfpu.l[n][0]; v != uint32(n) {
						got.L[n] = v
					}
					equal(t, e.sfpu.l[n], broadcast(e.sfpu.l[n][0]), "LReg %d", n)
					v := e.gather(place{row: uint32(16 * n)}, true)
					e.decodeLanes(sfpuInt32, &v, &v)
					if v[0] != uint32(n) {
						got.Dst[uint32(16*n)] = v[0]
					}
				}
				want := tt.want
				for n, v := range want.L {
					if v == uint32(n) {
						delete(want.L, n)
					}
				}
				if want.Dst == nil {
					want.Dst = stored{}
				}
				noDiff(t, got, want, "state")
			})
		}
	}
}

func TestMacrosThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name      string
		templates []uint32
		sequence  uint32
		options   uint32
		want      Category
	}{
		{name: "an instruction that doesn't exist", sequence: sequence(1, 0, 0, 0), want: UndefinedBehavior},
		{name: "no store for the store sub-unit", templates: []uint32{sfpNotTo(12)}, sequence: sequence(0, 0, 0, template0), want: UndefinedBehavior},
		{name: "two results for one port", templates: []uint32{sfpNotTo(12), opSFPSHFT2<<24 | 6 | 13<<4},
			sequence: sequence(template0, 0, template1, 0), want: UndefinedBehavior},
		{name: "an instruction that isn't emulated here", templates: []uint32{opSFPTRANSP<<24 | 12<<4}, sequence: sequence(template0, 0, 0, 0),
			want: UnimplementedFunctionality},
		{name: "a shuffle", templates: []uint32{opSFPSHFT2<<24 | 3 | 12<<4}, sequence: sequence(0, 0, template0, 0), want: UnimplementedFunctionality},
		{name: "a mode of stores that isn't emulated", sequence: sequence(0, 0, 0, aStore), options: 5, want: UnimplementedFunctionality},
	} {
		e := macroEngine(t, chip.Wormhole, tt.templates, []uint32{tt.sequence}, tt.options)
		for _, w := range []uint32{loadMacro(0, 0, 16), sfpNop} {
			e.PushRun(1, w, true)
		}
		if e.fault == nil || e.fault.Category != tt.want {
			t.Errorf("%s: refused as %v, want %v", tt.name, e.fault, tt.want)
		}
	}
}

func TestCyclesThatHardwareWaitsWhileMacrosRun(t *testing.T) {
	const product = opSFPMAD<<24 | 10<<16 | 10<<12 | 9<<8 | 1<<4 // LReg 1 = 1 * 1 + 0
	for _, tt := range []struct {
		name string
		arch chip.Arch
		list []uint32
		want uint32 // of LReg 0: 1 as it was loaded, or not
	}{
		{"Wormhole, a product", chip.Wormhole, []uint32{product, sfpMove(1, 2)}, 1},
		{"Blackhole, a product", chip.Blackhole, []uint32{product, sfpMove(1, 2)}, ^uint32(1)},
		{"Blackhole, another register", chip.Blackhole, []uint32{product, sfpMove(3, 2)}, 1},
		{"Wormhole, a swap", chip.Wormhole, []uint32{opSFPSWAP<<24 | 1 | 1<<4 | 2<<8, sfpMove(3, 2)}, ^uint32(1)},
		{"Wormhole, a swap and a NOP", chip.Wormhole, []uint32{opSFPSWAP<<24 | 1 | 1<<4 | 2<<8, sfpNop}, 1},
	} {
		e := macroEngine(t, tt.arch, []uint32{sfpNotTo(12)}, []uint32{sequence(template0|after(2), 0, 0, 0)}, 0)
		for _, w := range append([]uint32{loadMacro(0, 0, 16)}, tt.list...) {
			if e.PushRun(1, w, true); e.fault != nil {
				t.Fatalf("%s: %v", tt.name, e.fault)
			}
		}
		equal(t, e.sfpu.l[0][0], tt.want, "%s: LReg 0", tt.name)
	}
}

package tensix

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

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

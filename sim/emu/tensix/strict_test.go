package tensix

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

const (
	semInit1   = opSEMINIT<<24 | 15<<20 | 1<<3
	semPost1   = opSEMPOST<<24 | 1<<3
	zeroAll    = opZEROACC<<24 | 3<<19
	stallSync  = opSTALLWAIT<<24 | 2<<15
	sfpLoad0   = opSFPLOAD<<24 | 2<<16
	sfpMad     = opSFPMAD<<24 | 10<<16 | 9<<12 | 9<<8 | 1<<4 // LReg 1 = 1 * 0 + 0
	sfpMov     = opSFPMOV<<24 | 1<<8 | 2<<4                  // LReg 2 = LReg 1
	sfpMovElse = opSFPMOV<<24 | 3<<8 | 2<<4
	sfpNop     = opSFPNOP << 24
	readConfig = opRDCFG << 24
	zero16     = opZEROACC<<24 | 1<<19
	sfpStore0  = opSFPSTORE<<24 | 2<<16
)

func assumePartOfTile(e *Engine) { e.Assume(1, PartOfTile) }

func run(e *Engine, list ...uint32) *Refusal {
	for _, w := range list {
		if !e.Push(1, w, true) {
			break
		}
		for e.Step() > 0 {
		}
	}
	return e.Fault()
}

var waitStores = map[chip.Arch]uint32{chip.Wormhole: 0x2000, chip.Blackhole: 0x400}

func strict(arch chip.Arch) *Engine {
	e := New(arch, newTestTile(arch))
	e.RefuseHazards()
	return e
}

func storeConfig(e *Engine) { e.StoredTo(1, Configuration, 0) }

func unpackToDst(e *Engine) {
	e.issuer = 1
	e.allocate()
	e.unpackDst(&unpacking{}, 0, make([]uint32, rowSize))
}

func TestHazardsAreRefusedOnlyWhereAskedFor(t *testing.T) {
	const unpackNop, storeRegister = opUNPACR_NOP<<24 | 1, opSTOREREG<<24 | 0x40000>>2
	waitMath := map[chip.Arch]uint32{chip.Wormhole: 0x80, chip.Blackhole: 0x10}
	for _, arch := range archs {
		for _, tt := range []struct {
			name     string
			before   func(e *Engine)
			list     []uint32
			want     string // part of the refusal, if there is one
			wormhole bool   // only there
		}{
			{name: "a post too soon", list: prog{semInit1, zeroAll, semPost1}, want: "matrix unit"},
			{name: "a post after a wait", list: prog{semInit1, zeroAll, stallSync | waitMath[arch], semPost1}},
			{name: "a wait of another unit", list: prog{semInit1, zeroAll, opSTALLWAIT<<24 | 4<<15 | waitMath[arch], semPost1}, want: "matrix unit"},
			{name: "a post after the core waited", before: func(e *Engine) { run(e, semInit1, zeroAll); e.Synced(1) }, list: prog{semPost1}},
			{name: "its own counters", list: prog{semInit1, opINCRWC << 24, opSETRWC << 24, sfpNop, semPost1}},
			{name: "a store while an unpacker may read", list: prog{unpackNop, storeRegister}, want: "unpacker 0"},
			{name: "a store after a wait", list: prog{unpackNop, opSTALLWAIT<<24 | 0x20<<15 | 2, storeRegister}},
			{name: "a post of rows of Dst", before: unpackToDst,
				list: prog{semInit1, unpackNop, unpackNop | 1<<23, stallSync | 2, semPost1}},
			{name: "that too soon", before: unpackToDst, list: prog{semInit1, unpackNop, unpackNop | 1<<23, semPost1},
				want: "what unpacker 0 may"},
			{name: "a second post", before: unpackToDst, list: prog{semInit1, semPost1, unpackNop | 1<<23, stallSync | 2, semPost1},
				want: "what unpacker 1 may"},
			{name: "configuration just stored", before: storeConfig, list: prog{readConfig}, want: "stores to configuration"},
			{name: "configuration waited for", before: storeConfig, list: prog{opSTALLWAIT<<24 | 0x80<<15 | waitStores[arch], readConfig}},
			{name: "configuration read back", before: func(e *Engine) { e.StoredTo(1, Configuration, 0); e.Arrived(1, Configuration) }, list: prog{readConfig}},
			{name: "another thread's stores", before: func(e *Engine) { e.StoredTo(2, Configuration, 0) }, list: prog{readConfig}},
			{name: "half of a tile undefined", before: assumePartOfTile, list: prog{zero16, sfpLoad0, sfpStore0, sfpLoad0 | 2}},
			{name: "all of a tile undefined", before: assumePartOfTile, list: prog{zeroAll, sfpLoad0}, want: "undefined since", wormhole: true},
			{name: "only half of each row written", before: assumePartOfTile, list: prog{zeroAll, sfpStore0, sfpLoad0 | 2}, want: "undefined since",
				wormhole: true},
			{name: "a result used at once", list: prog{sfpMad, sfpMov}, want: "one cycle late", wormhole: true},
			{name: "a result used after SFPNOP", list: prog{sfpMad, sfpNop, sfpMov}},
			{name: "another register used", list: prog{sfpMad, sfpMovElse}},
		} {
			e := New(arch, newTestTile(arch))
			if tt.before != nil {
				tt.before(e)
			}
			if f := run(e, tt.list...); f != nil {
				t.Errorf("%v: %s: refused though nobody asked: %v", arch, tt.name, f)
			}
			e = strict(arch)
			if tt.before != nil {
				tt.before(e)
			}
			f := run(e, tt.list...)
			var found *Refusal
			e = strict(arch)
			e.OnHazard = func(f *Refusal) { found = cmp.Or(found, f) }
			if tt.before != nil {
				tt.before(e)
			}
			stopped := run(e, tt.list...)
			if stopped != nil || (found == nil) != (f == nil) || found != nil && (*found != *f || !f.Hazard) {
				t.Errorf("%v: %s: going on: found %v, %v, want %v", arch, tt.name, found, stopped, f)
			}
			want := tt.want
			if tt.wormhole && arch != chip.Wormhole {
				want = ""
			}
			switch {
			case want == "" && f != nil:
				t.Errorf("%v: %s: %v", arch, tt.name, f)
			case want != "" && (f == nil || !strings.Contains(f.Detail, want) || f.Category != UndefinedBehavior):
				t.Errorf("%v: %s: %v, want %q", arch, tt.name, f, want)
			}
		}
	}
}

func TestStoresAfterPushes(t *testing.T) {
	const (
		waitForPost = opSEMWAIT<<24 | 2<<15 | 1<<3<<2 | 1 // sync unit; semaphore 3; while it is 0
		early, late = "since it pushed this instruction", "may not have arrived"
		readGPR     = opADDDMAREG << 24
	)
	for _, arch := range archs {
		for _, c := range []struct {
			name   string
			to     Place
			word   uint32
			queued uint32
			later  func(e *Engine)
			want   string
		}{
			{"another word's reader before", Configuration, 64, readConfig, func(*Engine) {}, ""},
			{"the word's reader before", Configuration, 64, readConfig | 64, func(*Engine) {}, "configuration word 64 " + early},
			{"the same, and the store has arrived", Configuration, 64, readConfig | 64, func(e *Engine) { e.Arrived(1, Configuration) }, early},
			{"a reader of the word with the GPR's number", GPRs, 64, readConfig | 64, func(*Engine) {}, ""},
			{"another GPR's reader before", GPRs, 5, readGPR | 4, func(*Engine) {}, ""},
			{"the GPR's reader before", GPRs, 5, readGPR | 5, func(*Engine) {}, "GPR 5 " + early},
			{"a reader of four GPRs before", GPRs, 5, opWRCFG<<24 | 1<<15 | 4<<16 | 64, func(*Engine) {}, "GPR 5 " + early},
			{"the preceding GPR's reader before", GPRs, 5, opWRCFG<<24 | 4<<16 | 64, func(*Engine) {}, ""},
			{"a reader after the store", Configuration, 64, readConfig, func(e *Engine) { run(e, readConfig|64) }, late},
			{"a reader after the store and a wait", Configuration, 64, readConfig, func(e *Engine) {
				run(e, opSTALLWAIT<<24|0x80<<15|waitStores[arch], readConfig|64)
			}, ""},
			{"the same, read back while the reader is queued", Configuration, 64, readConfig, func(e *Engine) { run(e, readConfig|64); e.Arrived(1, Configuration) }, ""},
			{"the same, read back first", Configuration, 64, readConfig, func(e *Engine) { e.Arrived(1, Configuration); run(e, readConfig|64) }, ""},
		} {
			e := strict(arch)
			if f := run(e, opSEMINIT<<24|15<<20|1<<3<<2, waitForPost, c.queued); f != nil || e.Queued(1) == 0 {
				t.Fatalf("%v: %v, %d instructions wait", arch, f, e.Queued(1))
			}
			e.StoredTo(1, c.to, c.word)
			c.later(e)
			e.PostSemaphore(3)
			for e.Step() > 0 {
			}
			switch f := e.Fault(); {
			case c.want == "" && (f != nil || e.Queued(1) != 0):
				t.Errorf("%v: %s: %v, %d instructions wait", arch, c.name, f, e.Queued(1))
			case c.want != "" && (f == nil || !strings.Contains(f.Detail, c.want)):
				t.Errorf("%v: %s: %v, want %q", arch, c.name, f, c.want)
			}
		}
	}
}

func TestLateHazardsOfWormhole(t *testing.T) {
	const (
		eight   = 2 << 12 // rows
		add     = opSFPADD<<24 | 10<<12
		iadd    = opSFPIADD<<24 | 4
		rotate  = opSFPSHFT2<<24 | 3
		wrcfg   = opWRCFG << 24
		nopAny  = opDMANOP << 24
		moveRow = opMOVA2D<<24 | eight
		sum     = opELWADD << 24
		acc     = sum | 1<<21

		undefined = "undefined since ZEROACC"
		oneLate   = "one cycle late"
	)
	reg := func(c, d uint32) uint32 { return c<<8 | d<<4 }
	type hazardous struct {
		name string
		list []uint32
		want string // part of the refusal, if there is one; on Blackhole there is none but of single words of WRCFG
	}
	tests := []hazardous{
		{"a rotation and the same register", prog{rotate | reg(1, 1), rotate | reg(1, 2)}, oneLate},
		{"rotations of two registers in turn, as in LLK", prog{rotate | reg(1, 1), rotate | reg(5, 5), rotate | reg(1, 1), rotate | reg(5, 5), sfpNop, iadd | reg(1, 0), iadd | reg(5, 4)}, ""},
		{"rotations and sums of floats, as in LLK", prog{rotate | reg(1, 1), rotate | reg(5, 5), add | reg(1, 0), add | 4<<16 | reg(5, 4)}, ""},
		{"a rotation and an instruction of the round unit", prog{rotate | reg(1, 1), iadd | reg(5, 4)}, "round unit"},
		{"a rotation and a shift of another register", prog{rotate | reg(1, 1), opSFPSHFT2<<24 | 3<<12 | reg(2, 4) | 5}, "round unit"},
		{"a shift that doesn't read a late result", prog{sfpMad, opSFPSHFT2<<24 | 3<<12 | reg(2, 4) | 5}, ""},
		{"a late result as distance", prog{sfpMad, opSFPSHFT2<<24 | 2<<12 | reg(1, 4) | 5}, oneLate},
		{"configuration read right after WRCFG", prog{wrcfg | 64, readConfig | 64}, "configuration words 64 to 64"},
		{"another word", prog{wrcfg | 64, readConfig | 65}, ""},
		{"four words", prog{wrcfg | 1<<15 | 24, readConfig | 27}, "configuration words 24 to 27"},
		{"the word after a NOP", prog{wrcfg | 64, nop, readConfig | 64}, ""},
		{"the word after a NOP of another unit", prog{wrcfg | 64, nopAny, readConfig | 64}, ""},
		{"unpacking from an address just written", prog{wrcfg | 64, opUNPACR<<24 | 0xC1}, "configuration words 64"},
		{"unpacking from an address that no unpacker uses", prog{wrcfg, opUNPACR<<24 | 0xC1}, ""},
		{"rows that were moved, and a sum that accumulates", prog{moveRow, acc}, "may not have been moved"},
		{"the same three instructions later", prog{moveRow, nopAny, nopAny, nopAny, acc}, ""},
		{"a sum that doesn't", prog{moveRow, sum}, ""},
		{"rows that are undefined", prog{zero16, sfpLoad0}, undefined},
		{"rows that are not", prog{zero16, sfpLoad0 | 16}, ""},
		{"the other columns of rows stored to", prog{zero16, sfpStore0, sfpLoad0 | 2}, undefined},
		{"the columns written", prog{zero16, sfpStore0, sfpLoad0}, ""},
		{"both, when both are written", prog{zero16, sfpStore0, sfpStore0 | 2, sfpLoad0 | 2, sfpLoad0}, ""},
		{"both, of rows that were defined", prog{sfpStore0, sfpLoad0 | 2}, ""},
		{"a sum in place of such rows", prog{zero16, sfpStore0, sum, nopAny, nopAny, nopAny, sfpLoad0 | 2}, ""},
		{"rows that are moved there instead", prog{zero16, sfpStore0, moveRow, nopAny, nopAny, nopAny, sfpLoad0 | 2}, ""},
		{"such rows, undefined again", prog{zero16, sfpStore0, zero16, sfpStore0, sfpLoad0 | 2}, undefined},
		{"a move of undefined rows", prog{zero16, opMOVD2A<<24 | eight, opMOVD2B<<24 | eight}, ""},
		{"a move of rows with both columns", prog{zero16, sfpStore0, sfpStore0 | 2, opMOVD2A<<24 | eight}, ""},
		{"a product onto such rows, undefined again", prog{zero16, sfpStore0, zero16, opMVMUL << 24, nopAny, nopAny, nopAny, sfpLoad0 | 2}, ""},
		{"a maximum with such rows, undefined again", prog{zero16, sfpStore0, zero16, opGMPOOL<<24 | 1<<19, nopAny, nopAny, nopAny, sfpLoad0 | 2}, ""},
	}
	for _, w := range []uint32{acc, opELWMUL << 24, opMVMUL << 24, opGAPOOL<<24 | 1<<19, opGMPOOL<<24 | 1<<19, opMOVD2A<<24 | eight, opMOVD2B<<24 | eight,
		opMOVD2B << 24} {
		tests = append(tests, hazardous{mnemonic(w) + " of such rows", prog{zero16, sfpStore0, w}, undefined})
	}
	for _, tt := range tests {
		for _, arch := range archs {
			runs := func(hazard func(*Refusal)) *Refusal {
				e := strict(arch)
				e.OnHazard = hazard
				e.allocate()
				for _, s := range []*source{&e.srcA, &e.srcB} {
					s.valid[0] = true
					for c := range rowSize { // ones, for maxima
						s.rows[0][0][c] = 0x3F800000
					}
				}
				return run(e, tt.list...)
			}
			f := runs(nil)
			var first *Refusal
			if g := runs(func(f *Refusal) { first = cmp.Or(first, f) }); f != nil && f.Hazard && (g != nil || *first != *f) {
				t.Errorf("%v: %s: going on: found %v, %v, want %v", arch, tt.name, first, g, f)
			}
			late := f != nil && f.Category == UndefinedBehavior &&
				slices.ContainsFunc([]string{"late", "round unit", "may not", "undefined since"},
					func(s string) bool { return strings.Contains(f.Detail, s) })
			switch {
			case arch == chip.Blackhole && !strings.HasPrefix(tt.want, "configuration words 64") || tt.want == "":
				if late {
					t.Errorf("%v: %s: %v", arch, tt.name, f)
				}
			case f == nil || !strings.Contains(f.Detail, tt.want) || f.Category != UndefinedBehavior:
				t.Errorf("%v: %s: %v, want %q", arch, tt.name, f, tt.want)
			}
		}
	}
}

func TestPackersMustNotReadWhatSFPSTOREHasLeftUndefined(t *testing.T) {
	for _, tt := range []struct {
		list []uint32
		ok   bool
	}{
		{prog{zeroAll, sfpStore0}, false},
		{prog{zeroAll, sfpStore0, sfpStore0 | 2}, true},
		{prog{sfpStore0}, true},
		{prog{zeroAll}, true},
	} {
		e := strict(chip.Wormhole)
		e.allocate()
		if f := run(e, tt.list...); f != nil {
			t.Fatal(f)
		}
		var p packing
		p.conversion = arith.Pack{Mid: arith.BF16, Out: arith.BF16}
		if got := e.packRow(&p, new(srcRow), 3); got != tt.ok {
			t.Errorf("%#x: packed %v, %v", tt.list, got, e.Fault())
		}
	}
}

func TestPartOfAnUndefinedRowUnpackedToDst(t *testing.T) {
	const row, half = 3, rowSize / 2
	for _, arch := range archs {
		e := strict(arch)
		e.allocate()
		p := packing{packPlan: packPlan{conversion: arith.Pack{Mid: arith.FP32, Out: arith.FP32, Wide: true}}}
		pack := func() bool {
			defer func() { e.fault = nil }()
			return e.packRow(&p, new(srcRow), row)
		}
		if f := run(e, zeroAll); f != nil {
			t.Fatal(f)
		}
		if !pack() {
			t.Errorf("%v: a row that is undefined doesn't read as zeros", arch)
		}
		e.unpackDst(&unpacking{}, row*rowSize+half, make([]uint32, half))
		if got, want := pack(), arch == chip.Blackhole; got != want {
			t.Errorf("%v: after half of it was unpacked: packed %v, want %v", arch, got, want)
		}
		e.unpackDst(&unpacking{}, row*rowSize, make([]uint32, half))
		if !pack() {
			t.Errorf("%v: refused although all of it was unpacked", arch)
		}
		e.unpackDst(&unpacking{}, row*rowSize, make([]uint32, half))
		if !pack() {
			t.Errorf("%v: refused although the rest of it was defined", arch)
		}
	}
}

// See tt-isa-documentation BlackholeA0/TensixTile/TensixCoprocessor/SFPMAD.md.
func TestLateResultsThatBlackholeDoesNotWaitFor(t *testing.T) {
	const mul24 = opSFPMUL24<<24 | 9<<8 | 1<<4
	reg := func(c, d uint32) uint32 { return c<<8 | d<<4 }
	for _, tt := range []struct {
		name string
		next uint32 // after a result in LReg 1
		ok   bool
	}{
		{"SFPIADD to it", opSFPIADD<<24 | 4 | reg(2, 1), false},
		{"SFPIADD of it to another", opSFPIADD<<24 | 4 | reg(1, 2), true},
		{"SFPIADD of it and an immediate, in its place", opSFPIADD<<24 | 5 | reg(1, 1), true},
		{"SFPSHFT of it", opSFPSHFT<<24 | 1 | reg(0, 1), false},
		{"SFPSHFT by it", opSFPSHFT<<24 | reg(1, 2), true},
		{"SFPSHFT of a register to it", opSFPSHFT<<24 | 5 | reg(2, 1), true},
		{"SFPSWAP that compares it", opSFPSWAP<<24 | 1 | reg(2, 1), false},
		{"SFPSWAP that compares with it", opSFPSWAP<<24 | 9 | reg(1, 2), false},
		{"SFPSWAP that exchanges it", opSFPSWAP<<24 | reg(1, 2), true},
		{"SFPAND of it as second register", opSFPAND<<24 | 1 | 1<<12 | reg(2, 3), false},
		{"SFPAND to it", opSFPAND<<24 | reg(2, 1), true},
		{"SFPOR of it as second register", opSFPOR<<24 | 1 | 1<<12 | reg(2, 3), false},
		{"SFPSHFT2 of its lanes", opSFPSHFT2<<24 | 3 | reg(1, 2), false},
		{"SFPSHFT2 of it", opSFPSHFT2<<24 | 1<<12 | 5 | reg(2, 3), false},
		{"SFPSHFT2 by it", opSFPSHFT2<<24 | 2<<12 | 5 | reg(1, 3), true},
		{"SFPMOV of it", sfpMov, true},
		{"SFPMAD of it", opSFPMAD<<24 | 1<<16 | 1<<12 | reg(1, 2), true},
		{"SFPSTORE of it", opSFPSTORE<<24 | 1<<20 | 2<<16, true},
	} {
		for _, first := range []uint32{sfpMad, mul24, opSFPMULI<<24 | 1<<4} {
			for _, gap := range []bool{false, true} {
				e := strict(chip.Blackhole)
				list := prog{first, tt.next}
				if gap {
					list = prog{first, sfpNop, tt.next}
				}
				f := run(e, list...)
				if (f == nil) != (tt.ok || gap) ||
					f != nil && (f.Category != UndefinedBehavior || !strings.Contains(f.Detail, "one cycle late")) {
					t.Errorf("%s after %s, with SFPNOP %v: %v", tt.name, mnemonic(first), gap, f)
				}
			}
		}
	}
	e := strict(chip.Blackhole)
	if f := run(e, sfpMad, opSFPCONFIG<<24|11<<4); f != nil {
		t.Errorf("SFPCONFIG from LReg 0 after a result in LReg 1: %v", f)
	}
	if f := run(e, sfpMad&^(1<<4), opSFPCONFIG<<24|11<<4); f == nil || !strings.Contains(f.Detail, "one cycle late") {
		t.Errorf("SFPCONFIG from LReg 0 after a result there: %v", f)
	}
}

func TestVectorUnitMustNotReadDstRightAfterTheMatrixUnitWroteIt(t *testing.T) {
	for _, gap := range []int{0, 2, 3} {
		e := strict(chip.Wormhole)
		e.srcA.valid[0] = true
		list := prog{opMOVA2D<<24 | 2<<12}
		for range gap {
			list = append(list, opDMANOP<<24)
		}
		f := run(e, append(list, sfpLoad0)...)
		equal(t, f != nil, gap < 3, "refusal with %d instructions between: %v", gap, f)
	}
}

func TestWaitsAreSaidInWords(t *testing.T) {
	for _, tt := range []struct {
		list []uint32
		want string
	}{
		{nil, ""},
		{prog{opSEMWAIT<<24 | 1<<3 | whileZero}, "SEMWAIT 0xa6000009 waits while semaphore 1 is 0"},
		{prog{semInit1&^(15<<20) | 2<<20 | 2<<16, opSEMWAIT<<24 | 1<<3 | whileMax, sfpNop}, "SEMWAIT 0xa600000a waits while semaphore 1 is at its maximum, 2, 1 more instructions queued"},
		{prog{opMOVA2D<<24 | 2<<12}, "MOVA2D 0x12002000 waits for unpacker 0 to fill bank 0 of SrcA"},
		{prog{opMOVB2D<<24 | 2<<12}, "MOVB2D 0x13002000 waits for unpacker 1 to fill bank 0 of SrcB"},
	} {
		e := New(chip.Wormhole, newTestTile(chip.Wormhole))
		if f := run(e, tt.list...); f != nil {
			t.Fatal(f)
		}
		if got := e.Waiting(1); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestQueueThatOverflowsIsRefused(t *testing.T) {
	e := New(chip.Wormhole, newTestTile(chip.Wormhole))
	for i := 0; i < queueSize-1; i++ {
		if !e.Push(0, opSEMWAIT<<24|1<<2|whileZero, true) {
			t.Fatalf("instruction %d: %v", i, e.Fault())
		}
		if want := i < queueHigh; e.CanPush(0) != want {
			t.Fatalf("%d instructions: CanPush %v, want %v", i+1, !want, want)
		}
	}
	if e.Push(0, opSETC16<<24|1, true) || e.Fault().Category != UnimplementedFunctionality {
		t.Errorf("one more: %v", e.Fault())
	}
}

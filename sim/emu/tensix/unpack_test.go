package tensix

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

type fieldValue struct {
	field isa.Config
	value uint32
}

// rows has the datum of all columns by row, unless it is old.
type rows = map[uint32]uint32

type unpackState struct {
	SrcA, SrcB, Dst rows    // of the unpackers' banks, and of 32-bit data
	Valid           [2]bool // banks 0
}

// Data that fp32 and TF32 have: what rows hold before, and what L1 holds at the places of two
// contexts.
const (
	oldDatum = 0x40400000
	first    = 0x3F800000
	second   = 0x40000000
)

const unpackRows = 2

// Thread 0 unpacks rows of fp32 to row 8 of SrcA and SrcB with context 0 and to row 16 of SrcA with
// context 1.
func unpackEngine(t *testing.T, arch chip.Arch, context uint32, fields []fieldValue) *Engine {
	t.Helper()
	e := New(arch, newTestTile(arch))
	e.allocate()
	for bank := range 2 {
		for row := range srcRows {
			for c := range rowSize {
				e.srcA.rows[bank][row][c], e.srcB.rows[bank][row][c] = oldDatum, oldDatum
			}
		}
	}
	for row := range uint32(dstRows / 2) {
		for c := range uint32(rowSize) {
			e.dst.write32(row, c, oldDatum)
		}
	}
	l1 := e.tile.L1(0)
	for i, v := range []uint32{first, second} {
		for j := range unpackRows * rowSize {
			l1[(dataBase+i*dataSize/2)/4+j] = v
		}
	}
	set := func(f isa.Config, v uint32) {
		p := e.places[f]
		if !e.StoreConfig(uint32(p.Word), e.config[0][p.Word]&^(p.Mask<<p.Shift)|v<<p.Shift) {
			t.Fatalf("field %d: %v", f, e.fault)
		}
	}
	for unit := range uint32(2) {
		u := isa.Config(unit)
		set(isa.UnpackDescriptor+u, 256<<16|0x10|uint32(arith.FP32))
		set(isa.UnpackDescriptor1+u, 4<<16|1)
		set(isa.UnpackOutFormat+u, uint32(arith.TF32))
		set(isa.UnpackZStride+u, 1024)
		for c := range uint32(numContexts) {
			set(isa.UnpackUncompressed+contextIndex(unit, c), 1)
			set(isa.UnpackBase+contextIndex(unit, c), (dataBase+c*dataSize/2)/16-1)
		}
	}
	set(isa.UnpackDst, firstRows+8*rowSize)
	set(isa.UnpackDst+1, firstRows+16*rowSize)
	if arch == chip.Wormhole {
		set(isa.UnpackUncompressed+contextIndex(0, zerosContext), 1)
	}
	for _, f := range fields {
		set(f.field, f.value)
	}
	toDst := e.on(&e.threads[0], isa.UnpackToDstContext)
	p := e.threads[0].places[isa.ThreadUnpackContext]
	byAddress := e.threads[0].places[isa.ThreadSrcASetByAddress]
	for _, w := range []uint32{
		opSETC16<<24 | uint32(byAddress.Word)<<16 | bit(!toDst)<<byAddress.Shift,
		opSETC16<<24 | uint32(p.Word)<<16 | context<<8 | context,
		opSETADCXX<<24 | 3<<21 | (unpackRows*rowSize-1)<<10,
	} {
		if e.PushRun(0, w, true); e.fault != nil {
			t.Fatal(e.fault)
		}
	}
	for unit := range e.threads[1].adc[:2] { // thread 1 counts one row
		e.threads[1].adc[unit].channel[1].x.value = rowSize - 1
	}
	return e
}

func changed(t *testing.T, n uint32, datum func(row, column uint32) uint32) rows {
	t.Helper()
	m := rows{}
	for row := range n {
		v := datum(row, 0)
		for c := range uint32(rowSize) {
			equal(t, datum(row, c), v, "row %d, column %d", row, c)
		}
		if v != oldDatum {
			m[row] = v
		}
	}
	return m
}

func TestZerosAndContextsOfUNPACR(t *testing.T) {
	lastRow := []fieldValue{{isa.UnpackDst, firstRows + 63*rowSize}}
	toDst := []fieldValue{{isa.UnpackToDstContext, 1}}
	ints := []fieldValue{{isa.UnpackDescriptor, 256<<16 | 0x10 | uint32(arith.INT32)}, {isa.UnpackOutFormat, uint32(arith.INT32)}}
	for _, tt := range []struct {
		name      string
		blackhole bool
		context   uint32 // of the thread
		fields    []fieldValue
		word      uint32
		want      unpackState
		refused   Category
	}{
		{name: "data by the thread's context", word: 0x42000081, want: unpackState{SrcA: rows{8: first, 9: first}}},
		{name: "data by its own context", word: 0x42000481, want: unpackState{SrcA: rows{16: second, 17: second}}},
		{name: "data by its own context on Blackhole", blackhole: true, word: 0x42000481, want: unpackState{SrcA: rows{16: second, 17: second}}},
		{name: "data by the counters of another thread", blackhole: true, word: 0x42000181, want: unpackState{SrcA: rows{8: first}}},
		{name: "contexts are added modulo 8", context: 1, word: 0x42001C81, want: unpackState{SrcA: rows{8: first, 9: first}}},
		{name: "data for SrcB by its own context", word: 0x42800481, want: unpackState{SrcB: rows{0: second, 1: second}}},
		{name: "zeros", word: 0x42000091, want: unpackState{SrcA: rows{8: 0, 9: 0}}},
		{name: "zeros in a format that SrcA doesn't have", fields: ints, word: 0x42000091, want: unpackState{SrcA: rows{8: 0, 9: 0}}},
		{name: "zeros that make the bank valid", word: 0x420000D1, want: unpackState{SrcA: rows{8: 0, 9: 0}, Valid: [2]bool{true, false}}},
		{name: "zeros for SrcB", word: 0x42800091, want: unpackState{SrcB: rows{0: 0, 1: 0}}},
		{name: "zeros for Dst", fields: toDst, word: 0x42000091, want: unpackState{Dst: rows{8: 0, 9: 0}}},
		{name: "zeros by its own context", word: 0x42000491, want: unpackState{SrcA: rows{16: 0, 17: 0}}},
		{name: "zeros by context 2 go nowhere", context: 1, word: 0x42000491},
		{name: "zeros of which the first row is none", fields: []fieldValue{{isa.UnpackDst, 3 * rowSize}}, word: 0x42000091, want: unpackState{SrcA: rows{0: 0}}},
		{name: "zeros beyond the last row", fields: lastRow, word: 0x42000091, want: unpackState{SrcA: rows{63: 0, 0: 0}}},

		{name: "data by context 2", context: 1, word: 0x42000481, refused: UnimplementedFunctionality},
		{name: "zeros by context 3", context: 1, word: 0x42000891, refused: UnimplementedFunctionality},
		{name: "zeros for SrcB by context 2", context: 1, word: 0x42800491, refused: UndefinedBehavior},
		{name: "data beyond the last row", fields: lastRow, word: 0x42000081,
			refused: UnsupportedFunctionality},
		{name: "data in a format that SrcA doesn't have", fields: ints, word: 0x42000081, refused: UndefinedBehavior},
		{name: "zeros on Blackhole", blackhole: true, word: 0x42000091, refused: UntestedFunctionality},
		{name: "counters of a fourth thread", blackhole: true, word: 0x42000381, refused: UndefinedBehavior},
	} {
		t.Run(tt.name, func(t *testing.T) {
			arch := chip.Wormhole
			if tt.blackhole {
				arch = chip.Blackhole
			}
			e := unpackEngine(t, arch, tt.context, tt.fields)
			a, b := e.srcA.unpack, e.srcB.unpack
			e.PushRun(0, tt.word, true)
			if tt.refused != 0 {
				if e.fault == nil || e.fault.Category != tt.refused {
					t.Errorf("refused as %v, want %v", e.fault, tt.refused)
				}
				return
			}
			if e.fault != nil {
				t.Fatal(e.fault)
			}
			got := unpackState{
				SrcA:  changed(t, srcRows, func(row, c uint32) uint32 { return e.srcA.rows[a][row][c] }),
				SrcB:  changed(t, srcRows, func(row, c uint32) uint32 { return e.srcB.rows[b][row][c] }),
				Dst:   changed(t, dstRows/2, e.dst.read32),
				Valid: [2]bool{e.srcA.valid[0], e.srcB.valid[0]},
			}
			for _, m := range []*rows{&tt.want.SrcA, &tt.want.SrcB, &tt.want.Dst} {
				if *m == nil {
					*m = rows{}
				}
			}
			noDiff(t, got, tt.want, "state")
		})
	}
}

func TestContextsThatUNPACRUses(t *testing.T) {
	for _, tt := range []struct {
		name          string
		context, word uint32
		uses          map[isa.Config]bool
	}{
		{"the thread's", 1, 0x42000081, map[isa.Config]bool{isa.UnpackBase + 1: true, isa.UnpackDst + 1: true, isa.UnpackBase: false}},
		{"its own", 0, 0x42000481, map[isa.Config]bool{isa.UnpackBase + 1: true, isa.UnpackDst + 1: true, isa.UnpackBase: false}},
		{"both's sum", 1, 0x42000491, map[isa.Config]bool{isa.UnpackUncompressed + contextIndex(0, zerosContext): true,
			isa.UnpackBase: false, isa.UnpackBase + 1: false}},
	} {
		e := unpackEngine(t, chip.Wormhole, tt.context, nil)
		for f, want := range tt.uses {
			word := uint32(e.places[f].Word)
			equal(t, e.uses(&e.threads[0], tt.word, wordRange{word, word + 1}), want, "%s: field %d is used", tt.name, f)
		}
	}
}

func TestUNPACRAdvancesBothCounters(t *testing.T) {
	const step = 1<<6 | 2<<4 | 3<<2 | 1 // Y and Z of channel 1, Y and Z of channel 0
	for _, tt := range []struct {
		name     string
		counters uint32
		advanced [numThreads]bool
	}{
		{"the thread's own", 0, [numThreads]bool{true, false, false}},
		{"those of thread 2", 2, [numThreads]bool{true, false, true}},
	} {
		e := unpackEngine(t, chip.Blackhole, 0, nil)
		e.threads[2].adc[0] = e.threads[0].adc[0]
		if e.PushRun(0, 0x42000081|tt.counters<<8|step<<15, true); e.fault != nil {
			t.Fatalf("%s: %v", tt.name, e.fault)
		}
		for n := range e.threads {
			var want [4]uint32
			if tt.advanced[n] {
				want = [4]uint32{3, 1, 1, 2}
			}
			c := &e.threads[n].adc[0].channel
			equal(t, [4]uint32{c[0].y.value, c[0].z.value, c[1].y.value, c[1].z.value}, want, "%s: counters of thread %d", tt.name, n)
		}
	}
}

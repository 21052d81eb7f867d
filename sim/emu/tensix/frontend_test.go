package tensix

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/reprise-tt/reprise/chip"
)

func queued(t *testing.T, mop [mopWords]uint32, list ...uint32) []uint32 {
	t.Helper()
	e := New(chip.Blackhole, newTestTile(chip.Blackhole))
	for i, w := range mop {
		e.StoreMOP(0, i, w)
	}
	for _, w := range append(prog{opSEMWAIT<<24 | 1<<2 | whileZero}, list...) {
		if !e.Push(0, w, true) {
			t.Fatal(e.Fault())
		}
		e.Step()
	}
	q := &e.threads[0].queue
	var out []uint32
	for i := uint32(1); i < q.n; i++ {
		out = append(out, q.words[(q.first+i)%queueSize]&0xFF)
	}
	return out
}

func op(n uint32) uint32 { return opSETC16<<24 | n }

func TestMOPExpandsToItsLoops(t *testing.T) {
	const loops, masked = opMOP<<24 | 1<<23, opMOP << 24
	for _, tt := range []struct {
		name string
		mop  [mopWords]uint32
		list []uint32
		want []uint32
	}{
		{"one instruction, in the last round another", [9]uint32{2, 3, nop, nop, nop, op(5), nop, op(7), op(8)}, prog{loops}, prog{5, 5, 8, 5, 5, 7}},
		{"two instructions by turns", [9]uint32{1, 2, op(2), op(3), op(4), op(5), op(6), op(7), op(8)}, prog{loops}, prog{2, 5, 6, 5, 7, 3, 4}},
		{"mask", [9]uint32{0, 0, 0, op(3), 0, 0, 0, op(7), 0}, prog{masked | 3<<16 | 5}, prog{7, 3, 7, 3}},
		{"mask with SrcB and halo", [9]uint32{0, 3, op(2), op(3), op(4), op(5), op(6), op(7), op(8)}, prog{masked | 1<<16 | 1}, prog{7, 8, 3, 4, 5, 6, 2}},
		{"high half of the mask", [9]uint32{0, 0, 0, nop, 0, 0, 0, op(7), 0}, prog{opMOP_CFG<<24 | 1, masked | 16<<16}, prog{7}},
	} {
		if diff := cmp.Diff(tt.want, queued(t, tt.mop, tt.list...)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

func TestREPLAYRecordsAndPlaysAgain(t *testing.T) {
	const record, run = 1, 2
	replay := func(start, n, flags uint32) uint32 { return opREPLAY<<24 | start<<14 | n<<4 | flags }
	for _, tt := range []struct {
		name string
		list []uint32
		want []uint32
	}{
		{"recorded alone", prog{replay(0, 2, record), op(1), op(2), op(3)}, prog{3}},
		{"recorded and executed", prog{replay(0, 2, record|run), op(1), op(2), op(3)}, prog{1, 2, 3}},
		{"played", prog{replay(0, 2, record), op(1), op(2), replay(0, 2, 0), replay(1, 1, 0)}, prog{1, 2, 2}},
		{"around the end of the buffer", prog{replay(31, 2, record), op(1), op(2), replay(31, 2, 0), replay(0, 1, 0)}, prog{1, 2, 2}},
	} {
		if diff := cmp.Diff(tt.want, queued(t, [mopWords]uint32{}, tt.list...)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
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
	if e.Push(0, op(1), true) || e.Fault().Category != UnimplementedFunctionality {
		t.Errorf("one more: %v", e.Fault())
	}
}

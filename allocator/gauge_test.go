package allocator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

type heard struct {
	Kind  Kind
	Usage Usage
}

type recorder struct{ all []heard }

func (r *recorder) Set(k Kind, u Usage) { r.all = append(r.all, heard{k, u}) }

func TestGauge(t *testing.T) {
	var g recorder
	c := Config{DRAMBanks: 2, DRAMEnd: 1 << 16, DRAMAlign: 64, L1Banks: 4, L1End: 4096, L1Align: 16, L1Small: 1024, Gauge: &g}
	a := mustNew(t, c)
	const dram, l1 = 2 << 16, 4 * 3072
	if diff := cmp.Diff([]heard{{DRAM, Usage{Capacity: dram}}, {L1, Usage{Capacity: l1}}, {L1Small, Usage{Capacity: 4096}},
		{Trace, Usage{Capacity: dram}}}, g.all); diff != "" {
		t.Errorf("at the start (-want +got):\n%s", diff)
	}
	g.all = nil
	e := mustAllocate(t, a, Request{Size: 256, PageSize: 64})
	f := mustAllocate(t, a, Request{Kind: L1, Size: 64})
	at, err := a.AllocateAt(Request{Size: 64}, 4096)
	must(t, err)
	must(t, a.Hold(e))
	for _, e := range []Extent{e, f, at} {
		if err := a.Free(e); err != nil { // the first stays until its hold ends
			t.Fatal(err)
		}
	}
	must(t, a.Unhold(e))
	a.ResetPeak(DRAM)
	want := []heard{
		{DRAM, Usage{256, 256, dram, 1}}, {L1, Usage{256, 256, l1, 1}}, {DRAM, Usage{384, 384, dram, 2}},
		{L1, Usage{0, 256, l1, 0}}, {DRAM, Usage{256, 384, dram, 1}}, {DRAM, Usage{0, 384, dram, 0}}, {DRAM, Usage{0, 0, dram, 0}},
	}
	if diff := cmp.Diff(want, g.all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := a.Allocate(Request{Size: 1 << 30}); err == nil || len(g.all) != len(want) {
		t.Errorf("a failed allocation (%v) changed what the gauge shows", err)
	}
}

package view

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops/graph"
)

func TestModelHasDeviceTimes(t *testing.T) {
	r := graph.NewRecorder(graph.Config{})
	r.Device(graph.Device{ID: 2, ClockMHz: 500})
	r.Begin("ttnn::relu")
	r.Begin("Unary")
	function := r.Function()
	r.End()
	r.End()
	r.Begin("ttnn::empty")
	r.End()
	r.SetPrograms([]graph.ProgramRun{{Function: function, Device: 2, Start: 1000, End: 1250}, {Function: function, Device: 2, Start: 2000,
		End: 2100}})
	report, err := r.Finish()
	devtest.Must(t, err)
	m := newModel("timed", report)
	for i, want := range []int64{700, 700, 0} {
		if got := m.Ops[i].Device; got != want {
			t.Errorf("%s ran %d ns on the device, want %d", m.Ops[i].Name, got, want)
		}
	}
}

func TestChipsOfAMesh(t *testing.T) {
	for name, c := range map[string]struct {
		buffers, programs map[int]int64 // sizes by device
		want              map[int64][]int64
	}{
		"a number for each chip": {map[int]int64{0: 4096, 1: 2048}, map[int]int64{0: 512, 1: 1024},
			map[int64][]int64{0: {4608, 4096}, 1: {3072, 2048}}},
		"one for the mesh": {map[int]int64{7: 4096}, map[int]int64{0: 512, 1: 1024}, map[int64][]int64{0: {4608, 4096}, 1: {5120, 4096}}},
		"no programs":      {map[int]int64{7: 4096}, nil, map[int64][]int64{0: {0, 0}, 1: {0, 0}, 7: {4096, 4096}}},
	} {
		r := graph.NewRecorder(graph.Config{})
		for d := range int64(2) {
			r.Device(graph.Device{ID: d})
		}
		r.Begin("ttnn::all_reduce")
		id := uint64(0)
		for d, size := range c.buffers {
			id++
			r.Allocate(&graph.Buffer{ID: id, Device: d, Type: graph.L1, Size: size, MaxPerBank: size})
			id++
			r.Allocate(&graph.Buffer{ID: id, Device: d, Type: graph.DRAM, Size: size})
		}
		for d, size := range c.programs {
			r.AllocateCircular(graph.CircularBuffer{Device: d, Size: size, Address: 1 << 16, Cores: []graph.CoreRange{{X1: 1}}})
		}
		r.End()
		p, err := r.Finish()
		devtest.Must(t, err)
		p.MeshMapping = "chips:\n  0: [0, 0, 0, 0]\n  1: [1, 0, 0, 0]\n"
		m := newModel(name, p)
		got := map[int64][]int64{}
		for _, c := range m.Chips {
			got[c.ID] = []int64{slices.Max(c.L1), slices.Max(c.DRAM)}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: L1 and DRAM by chip: %s", name, d)
		}
		if m.Chips[1].Place != "(1, 0)" {
			t.Errorf("%s: chip 1 is at %q", name, m.Chips[1].Place)
		}
	}
}

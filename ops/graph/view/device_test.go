package view

import (
	"testing"

	"github.com/reprise-tt/reprise/ops/graph"
)

// An operation has the time of its programs on the device, and so has the function around it.
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
	r.SetPrograms([]graph.ProgramRun{{Function: function, Device: 2, Start: 1000, End: 1250}, {Function: function, Device: 2, Start: 2000, End: 2100}})
	report, err := r.Finish()
	if err != nil {
		t.Fatal(err)
	}
	m := newModel("timed", report)
	for i, want := range []int64{700, 700, 0} {
		if got := m.Ops[i].Device; got != want {
			t.Errorf("%s ran %d ns on the device, want %d", m.Ops[i].Name, got, want)
		}
	}
}

package bench

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/effort"
)

func TestWakeReport(t *testing.T) {
	effort.Long(t)
	r := runFamily(t, "wake", Config{})
	want := len(paces) * len(arrivals)
	for _, a := range arrivals {
		if a.after >= time.Millisecond && !a.busy {
			want += len(paces) // the processor's time
		}
	}
	if len(r.Figures) != want {
		t.Errorf("%d figures for %d paces and %d arrivals", len(r.Figures), len(paces), len(arrivals))
	}
	for _, f := range r.Figures {
		if f.Samples == 0 || !slices.ContainsFunc(f.Params, func(p report.Param) bool { return p.Key == "pace" }) {
			t.Errorf("%s: %d samples", f.ID(), f.Samples)
		}
	}
}

// With one processor a goroutine that is busy and the waiter would wait for each other.
func TestBusyWakeNeedsTwoProcessors(t *testing.T) {
	effort.Long(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := runFamily(t, "wake", Config{})
	if len(r.LeftOut) != 1 || r.LeftOut[0].Family != "wake/comes=4ms-again-busy" {
		t.Errorf("left out: %+v", r.LeftOut)
	}
	if want := (5 + 3) * len(paces); len(r.Figures) != want { // and the processor's time of the longer ones
		t.Errorf("%d figures, want %d", len(r.Figures), want)
	}
	for _, f := range r.Figures {
		if slices.ContainsFunc(f.Params, func(p report.Param) bool { return p.Value == comesBusy.name }) {
			t.Errorf("%s is measured", f.ID())
		}
	}
}

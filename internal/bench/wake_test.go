package bench

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/sim"
)

func TestWakeReport(t *testing.T) {
	effort.Long(t)
	r, err := Run(context.Background(), Config{Target: sim.Blackhole(), Device: "emu:blackhole", Families: []string{"wake"}, Rounds: 1})
	must(t, err)
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
	r, err := Run(t.Context(), Config{Target: sim.Blackhole(), Device: "emu:blackhole", Families: []string{"wake"}, Rounds: 1})
	must(t, err)
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

// How late waits notice, as ns/wake: the mean.
func BenchmarkWake(b *testing.B) {
	c := measure.Calibrate(20 * time.Millisecond)
	for _, p := range paces {
		for _, a := range arrivals {
			b.Run("pace="+p.name+"/comes="+a.name, func(b *testing.B) {
				d, err := reprise.Open(b.Context(), sim.Blackhole(), reprise.WithPace(p.spin, p.longest))
				must(b, err)
				defer d.Close(b.Context())
				j, _ := wakeJobs(b.Context(), c, d.Queue(0), nil, a)
				sum := 0.0
				for b.Loop() {
					ns, err := j.Sample()
					must(b, err)
					sum += ns
				}
				b.ReportMetric(sum/float64(b.N), "ns/wake")
			})
		}
	}
}

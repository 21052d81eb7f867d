package mesh_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

// What a replay costs the host for each chip, from one chip to 32: the quickest of many, because
// the emulated chips run on the same processors. ns/chip must stay flat.
func BenchmarkReplay(b *testing.B) {
	machine := sim.GalaxyBlackhole()
	defer machine.Close()
	m, err := mesh.Open(b.Context(), mesh.Cards(machine.Cards()...), mesh.Shape{8, 4})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close(b.Context())
	im, err := kernels.Prebuilt(chip.Blackhole, kernels.Blank)
	if err != nil {
		b.Fatal(err)
	}
	x, err := m.Load(b.Context(), "blank", mesh.Same(mesh.Range{}, &reprise.Program{Name: "blank", Kernels: []reprise.Kernel{{
		Name: "nothing", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
	}}}))
	if err != nil {
		b.Fatal(err)
	}
	trace, err := m.Queue(0).Capture(b.Context(), "blank", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	if err != nil {
		b.Fatal(err)
	}
	for _, shape := range []mesh.Shape{{1, 1}, {1, 2}, {1, 4}, {2, 4}, {4, 4}, {8, 4}} {
		queues, err := m.Queue(0).In(mesh.Range{Start: mesh.Coord{0, 0}, End: mesh.Coord{shape[0] - 1, shape[1] - 1}})
		if err != nil {
			b.Fatal(err)
		}
		part, err := trace.Subset(queues...)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(shape.Size()), func(b *testing.B) {
			best := time.Hour
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				if err := part.Replay(b.Context()); err != nil {
					b.Fatal(err)
				}
				best = min(best, time.Since(start))
				if i%16 == 15 {
					b.StopTimer()
					if err := m.Queue(0).Wait(b.Context()); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(best)/float64(shape.Size()), "best-ns/chip")
		})
	}
}

package mesh_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

// The host's cost of a replay for each chip, which must stay flat: the quickest of many, because
// the emulated chips run on the same processors.
func BenchmarkReplay(b *testing.B) {
	machine := sim.GalaxyBlackhole()
	defer machine.Close()
	m, err := mesh.Open(b.Context(), mesh.Cards(machine.Cards()...), mesh.Shape{8, 4})
	devtest.Must(b, err)
	defer m.Close(b.Context())
	im, err := kernels.Prebuilt(chip.Blackhole, kernels.Blank)
	devtest.Must(b, err)
	x, err := m.Load(b.Context(), "blank", mesh.Same(mesh.Range{}, &reprise.Program{Name: "blank", Kernels: []reprise.Kernel{{
		Name: "nothing", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
	}}}))
	devtest.Must(b, err)
	trace, err := m.Queue(0).Capture(b.Context(), "blank", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	devtest.Must(b, err)
	for _, shape := range []mesh.Shape{{1, 1}, {1, 2}, {1, 4}, {2, 4}, {4, 4}, {8, 4}} {
		queues, err := m.Queue(0).In(mesh.Range{Start: mesh.Coord{0, 0}, End: mesh.Coord{shape[0] - 1, shape[1] - 1}})
		devtest.Must(b, err)
		part, err := trace.Subset(queues...)
		devtest.Must(b, err)
		b.Run(fmt.Sprint(shape.Size()), func(b *testing.B) {
			best := time.Hour
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				devtest.Must(b, part.Replay(b.Context()))
				best = min(best, time.Since(start))
				if i%16 == 15 {
					b.StopTimer()
					devtest.Must(b, m.Queue(0).Wait(b.Context()))
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(best)/float64(shape.Size()), "best-ns/chip")
		})
	}
}

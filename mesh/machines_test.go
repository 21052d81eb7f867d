package mesh_test

import (
	"testing"
	"time"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func proof(b *bench) {
	in, out := b.pages("in", 8), b.pages("out", 8)
	x := b.load("add", b.adder("add", in, out, func(c *mesh.Chip) uint32 { return 3 }))
	b.must(b.queue.Write(b.ctx, in, words(in.Size(), 1)))
	b.must(b.queue.Run(b.ctx, x))
	for _, c := range b.mesh.Chips() {
		b.holds(c, out, 4)
	}
	trace := b.capture("t", x, x)
	if n, _ := trace.Streams(); n != 1 {
		b.Errorf("%d streams of commands, want 1", n)
	}
	b.must(b.queue.Write(b.ctx, in, words(in.Size(), 7)))
	b.must(trace.Replay(b.ctx))
	for _, c := range b.mesh.Chips() {
		b.holds(c, out, 10)
	}
	skew, err := b.mesh.Skew(b.ctx, trace)
	b.must(err)
	b.Logf("%v: chips were through within %v of each other, clocks read within %v", b.mesh, skew.Spread, skew.Within)
	if len(skew.Chips) != b.mesh.Size() || skew.Spread < 0 {
		b.Errorf("skew %+v", skew)
	}
	b.must(trace.Release(b.ctx))
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
		b.must(b.mesh.InStep(k))
	}
}

func TestGalaxies(t *testing.T) {
	effort.Long(t)
	if testing.Short() {
		t.Skip("several chips, too slow under the race detector; other tests take the same paths")
	}
	for _, make := range []func(...sim.Option) *sim.Machine{sim.GalaxyWormhole, sim.GalaxyBlackhole} {
		m := make()
		t.Cleanup(func() { _ = m.Close() })
		t.Run(m.String(), func(t *testing.T) {
			start := time.Now()
			b := open(t, m, mesh.Shape{8, 4})
			t.Logf("open in %v", time.Since(start))
			proof(b)
			b.must(b.mesh.Close(t.Context()))
		})
	}
}

func TestVendorSimulator(t *testing.T) {
	cards, err := ttsimtest.Start(t, ttsimtest.BlackholeX2).Cards()
	if err != nil {
		t.Fatal(err)
	}
	proof(openCards(t, mesh.Cards(cards...), mesh.Shape{1, 2}))
}

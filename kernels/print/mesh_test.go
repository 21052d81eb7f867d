package print_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func TestMesh(t *testing.T) {
	machine := sim.N300()
	t.Cleanup(func() { _ = machine.Close() })
	m, err := mesh.Open(t.Context(), mesh.Cards(machine.Cards()...), mesh.Shape{1, 2})
	devtest.Must(t, err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	b := &devtest.Bench{T: t, Ctx: t.Context(), Dev: m.Chip(0, 0).Device}
	im := compile(b, "kernel.c", counter)
	var mu sync.Mutex
	got := map[string][]string{}
	var listeners []*print.Listener
	for _, c := range m.Chips() {
		l, err := print.Listen(c.Device.Debug(), func(r print.Record) {
			mu.Lock()
			defer mu.Unlock()
			got[r.Device] = append(got[r.Device], r.String())
		}, print.Options{Name: c.Coord.String()})
		b.Must(err)
		listeners = append(listeners, l)
	}
	x, err := m.Load(b.Ctx, "count", mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		n := uint32(1)
		if c.Remote {
			n = 2
		}
		return program(im, chip.BRISC, chip.Single(2, 1), n, 0), nil
	}})
	b.Must(err)
	b.Must(m.Queue(0).Run(b.Ctx, x))
	tr, err := m.Queue(0).Capture(b.Ctx, "counts", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	b.Must(err)
	for range 2 {
		b.Must(tr.Replay(b.Ctx))
	}
	b.Must(m.Queue(0).Wait(b.Ctx))
	for _, l := range listeners {
		b.Must(l.Close())
	}
	near, far := m.Chip(0, 0).Coord.String(), m.Chip(0, 1).Coord.String()
	want := map[string][]string{}
	for range 3 {
		want[near] = append(want[near], near+" (2,1) BRISC program/kernel: line 0")
		want[far] = append(want[far], far+" (2,1) BRISC program/kernel: line 0", far+" (2,1) BRISC program/kernel: line 1")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

package watch_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/kernels/watch"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func TestTrace(t *testing.T) {
	b := devtest.Open(t, sim.Wormhole())
	x := b.Load(withBuffer(on(compile(b, "kernel.c", buffers), chip.NCRISC, 2)))
	tr, err := b.Queue.Capture(b.Ctx, "checked", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	b.Must(err)
	var file bytes.Buffer
	b.Must(tr.Save(b.Ctx, &file))
	o := devtest.Open(t, sim.Wormhole())
	loaded, err := o.Dev.LoadTrace(o.Ctx, &file)
	o.Must(err)
	o.Must(loaded.Replay(o.Ctx))
	err = o.Queue.Wait(o.Ctx)
	var f *watch.Failure
	if !errors.As(err, &f) {
		t.Fatal(err)
	}
	devtest.Says(t, f, "pushes 2 pages, but has reserved 1 at kernel.c:17 in kernel \"kernel\" of program \"checked\" on NCRISC")
	o.Must(o.Dev.Recover(o.Ctx))
}

func TestMesh(t *testing.T) {
	machine := sim.N300()
	t.Cleanup(func() { _ = machine.Close() })
	m, err := mesh.Open(t.Context(), mesh.Cards(machine.Cards()...), mesh.Shape{1, 2})
	devtest.Must(t, err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	b := &devtest.Bench{T: t, Ctx: t.Context(), Dev: m.Chip(0, 0).Device}
	im := compile(b, "kernel.c", asserts)
	x, err := m.Load(b.Ctx, "checked", mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		n := uint32(3)
		if c.Remote {
			n = 2 // is even
		}
		return on(im, chip.BRISC, n), nil
	}})
	b.Must(err)
	tr, err := m.Queue(0).Capture(b.Ctx, "checks", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	b.Must(err)
	b.Must(tr.Replay(b.Ctx))
	err = m.Queue(0).Wait(b.Ctx)
	var f *watch.Failure
	if !errors.As(err, &f) {
		t.Fatal(err)
	}
	if f.Program != "checked" || f.Processor != chip.BRISC || f.Line != 7 {
		t.Errorf("%+v", f)
	}
	var of *mesh.Error
	if !errors.As(err, &of) {
		t.Fatal(err)
	}
	if failed := of.Failed(); len(failed) != 1 || failed[0].Coord.String() != m.Chip(0, 1).Coord.String() {
		t.Errorf("chips that failed: %v", failed)
	}
}

func TestTwoCores(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole())
	p := on(compile(b, "kernel.c", asserts), chip.TRISC1, 2)
	p.Kernels[0].Cores = []chip.Range{chip.Single(1, 0), chip.Single(3, 2)}
	b.Must(b.Queue.Run(b.Ctx, b.Load(p)))
	if err := b.Queue.Wait(b.Ctx); err == nil {
		t.Fatal("no error")
	}
	fs, err := b.Dev.Debug().Failures()
	for err == nil && len(fs) < 2 { // one may be later than the end of the wait
		fs, err = b.Dev.Debug().Failures()
	}
	b.Must(err)
	if len(fs) != 2 || fs[0].Core != (chip.Core{X: 1}) || fs[1].Core != (chip.Core{X: 3, Y: 2}) || fs[0].Line != 7 || fs[1].Line != 7 {
		t.Errorf("%+v", fs)
	}
	b.Must(b.Dev.Recover(b.Ctx))
}

func FuzzFailures(f *testing.F) {
	record := make([]byte, watch.AreaSize)
	copy(record[48:], []byte{3, 5, 0x54, 0x57, 1, 0, 0, 0, 16, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0})
	table := append([]byte{0, 0, 0, 0, 'a', 0, 0, 0}, 8, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 'I', 'T', 'E', 'S')
	f.Add(record, table)
	f.Add(bytes.Repeat([]byte{0x54, 0x57, 1, 2}, watch.AreaSize/4), bytes.Repeat([]byte("ITES"), 9))
	f.Fuzz(func(t *testing.T, record, formats []byte) {
		area := make([]byte, watch.AreaSize)
		copy(area, record)
		p := &print.Program{ID: 1, Name: "p", Kernels: []print.Kernel{{Name: "k", Processor: chip.NCRISC, Formats: formats}}}
		fs := watch.Failures(chip.Core{}, area, []*print.Program{p})
		if watch.Failed(area) != (len(fs) > 0) {
			t.Errorf("%d failures", len(fs))
		}
		for i := range fs {
			if fs[i].Error() == "" || fs[i].Text == "" {
				t.Errorf("%+v", fs[i])
			}
		}
	})
}

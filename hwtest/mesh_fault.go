package hwtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func meshFaultCases() []testCase {
	return []testCase{
		{name: "capture refuses", protects: "what can't be part of a trace is refused on a mesh as on a chip", fn: onMesh(meshCaptureRefuses)},
		{name: "empty trace", protects: "a trace in which nothing was recorded on any chip is refused", fn: onMesh(meshEmptyTrace)},
		{name: "foreign objects", protects: "objects of one mesh are refused by another, also by its submesh", fn: onMesh(meshForeign)},
		{name: "closed", protects: "a mesh that is closed refuses everything, and closing it again does nothing", fn: onMesh(meshClosed)},
		{name: "late and double packets", needs: needEmulator, protects: "packets that a link delays or repeats change no result", fn: onMesh(meshBadLinks)},
		{name: "link down", needs: needEmulator, protects: "a collective over a link that is down hangs with the state of all chips, and goes on once they are recovered", fn: onMesh(meshLinkDown)},
		{name: "card lost", needs: needEmulator, protects: "when a card goes one error says so of every chip, and the others replay on", fn: onMesh(meshCardLost)},
	}
}

func meshCaptureRefuses(t *meshFixture) {
	in, _, x := t.setUp()
	for what, f := range map[string]func() error{
		"write":  func() error { return t.queue.Write(t.ctx, in, make([]byte, in.Size())) },
		"finish": func() error { return t.queue.Finish(t.ctx) },
		"run":    func() error { return t.queue.Run(t.ctx, x) },
	} {
		_, err := t.queue.Capture(t.ctx, "refused", func(r *mesh.Recorder) error {
			_ = f()
			return r.Run(x)
		})
		if !errors.Is(err, reprise.ErrInCapture) {
			t.Errorf("%s inside a capture: %v", what, err)
		}
	}
	t.ok(t.queue.Run(t.ctx, x))
	t.ok(t.queue.Finish(t.ctx))
}

func meshEmptyTrace(t *meshFixture) {
	if _, err := t.queue.Capture(t.ctx, "nothing", func(*mesh.Recorder) error { return nil }); !errors.Is(err, reprise.ErrEmptyTrace) {
		t.Errorf("nothing was recorded: %v", err)
	}
}

func meshForeign(t *meshFixture) {
	in, _, x := t.setUp()
	sub, err := t.mesh.Submesh(mesh.Range{})
	t.ok(err)
	for what, err := range map[string]error{
		"write": sub.Queue(0).Write(t.ctx, in, make([]byte, in.Size())),
		"run":   sub.Queue(0).Run(t.ctx, x),
		"event": sub.Queue(0).Record(t.ctx, t.mesh.NewEvent("e")),
	} {
		if !errors.Is(err, mesh.ErrForeign) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func meshClosed(t *meshFixture) {
	in, _, x := t.setUp()
	t.ok(t.mesh.Close())
	t.ok(t.mesh.Close())
	for what, err := range map[string]error{
		"write": t.queue.Write(t.ctx, in, make([]byte, in.Size())), "run": t.queue.Run(t.ctx, x), "finish": t.queue.Finish(t.ctx),
	} {
		if !errors.Is(err, mesh.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// everyLink does something with every link of the machine.
func (t *meshFixture) everyLink(do func(m *sim.Machine, chip, channel int) error) {
	t.Helper()
	for _, l := range t.machine.Emulated.Spec().Links {
		t.ok(do(t.machine.Emulated, l.Chip, l.Channel))
	}
}

func meshBadLinks(t *meshFixture) {
	b := t.linked()
	t.everyLink(func(m *sim.Machine, chip, channel int) error {
		at := fmt.Sprintf("%d:%d", chip, channel)
		return errors.Join(m.Inject("link-delay="+at+"/3"), m.Inject("link-duplicate="+at+"/2"))
	})
	x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.carryOut(x, err)
	for _, c := range t.links.Line() {
		t.is("sum", c, b, t.sums(b.Size()))
	}
}

func meshLinkDown(t *meshFixture) {
	// A mesh of its own, which gives up soon.
	t.ok(t.mesh.Close())
	hang := 400 * time.Millisecond
	if t.device.Slow() {
		hang = 5 * time.Second
	}
	m, err := mesh.Open(t.ctx, mesh.Cards(t.machine.Cards...), t.mesh.Shape(), mesh.WithDevice(reprise.WithHangTimeout(hang)))
	t.ok(err)
	defer m.Close()
	t.mesh, t.queue = m, m.Queue(0)
	b := t.linked()
	x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	t.ok(t.queue.Finish(t.ctx))
	t.everyLink(func(m *sim.Machine, chip, channel int) error { return m.SetLink(chip, channel, false) })
	t.ok(t.queue.Run(t.ctx, x))
	err = t.queue.Finish(t.ctx)
	var e *mesh.Error
	var he *reprise.HangError
	if !errors.As(err, &e) || len(e.Chips) != m.Size() || !errors.As(err, &he) {
		t.Errorf("all links are down: %v", err)
	}
	t.everyLink(func(m *sim.Machine, chip, channel int) error { return m.SetLink(chip, channel, true) })
	for _, c := range m.Chips() {
		t.ok(c.Device.Recover(t.ctx))
	}
	b = t.linked()
	x, err = t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.carryOut(x, err)
	for _, c := range t.links.Line() {
		t.is("sum", c, b, t.sums(b.Size()))
	}
}

func meshCardLost(t *meshFixture) {
	_, out, x := t.setUp()
	tr := t.recorded(x)
	t.ok(t.queue.Finish(t.ctx))
	drv, err := t.machine.Emulated.Driver()
	t.ok(err)
	lost := t.mesh.Chips()[0]
	for i, c := range t.machine.Emulated.Cards() {
		if c.String() == lost.Device.Name() {
			t.ok(drv.Unplug(i))
		}
	}
	var failed error
	for range 100 {
		if failed = errors.Join(tr.Replay(t.ctx), t.queue.Finish(t.ctx)); failed != nil {
			break
		}
	}
	var e *mesh.Error
	if !errors.As(failed, &e) || len(e.Chips) != t.mesh.Size() || !errors.Is(failed, reprise.ErrDeviceLost) {
		t.Fatalf("with a card gone: %v", failed)
	}
	last := t.mesh.Shape().Coord(t.mesh.Size() - 1)
	part, err := tr.Part(mesh.Range{Start: last, End: last})
	t.ok(err)
	t.ok(part.Replay(context.WithoutCancel(t.ctx)))
	c := t.mesh.Chip(last...)
	t.is("another chip", c, out, counting(out.Size(), 101+100*t.ordinal(c)))
}

package hwtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func meshFaultCases() []testCase {
	return []testCase{
		{name: "capture refuses", protects: "a mesh refuses in a capture what a chip refuses", fn: onMesh(meshCaptureRefuses)},
		{name: "empty trace", protects: "a trace in which nothing was recorded on any chip is refused", fn: onMesh(meshEmptyTrace)},
		{name: "foreign objects", protects: "objects of one mesh are refused by another, also by its submesh", fn: onMesh(meshForeign)},
		{name: "closed", protects: "a mesh that is closed refuses everything, and closing it again does nothing", fn: onOwnMesh(meshClosed)},
		{name: "lost packets", needs: needEmulator, protects: "packets that a link loses, and that are therefore sent again, change no result", fn: onOwnMesh(meshLostPackets)},
		{name: "late and double packets", needs: needEmulator, protects: "packets that a link delays or repeats change no result", fn: onOwnMesh(meshBadLinks)},
		{name: "link down", needs: needEmulator, protects: "a collective over a link that is down hangs with the state of all chips, and goes on once they are recovered", fn: onOwnMesh(meshLinkDown)},
		{name: "card lost", needs: needEmulator, protects: "when a card is lost the error lists every chip of the mesh, and the others still replay", fn: onOwnMesh(meshCardLost)},
	}
}

func meshCaptureRefuses(t *meshFixture) {
	in, _, x := t.setUp()
	for what, f := range map[string]func(context.Context) error{
		"write":  func(ctx context.Context) error { return t.queue.Write(ctx, in, make([]byte, in.Size())) },
		"finish": func(ctx context.Context) error { return t.queue.Wait(ctx) },
		"run":    func(ctx context.Context) error { return t.queue.Run(ctx, x) },
	} {
		_, err := t.queue.Capture(t.ctx, "refused", func(ctx context.Context, r *mesh.Recorder) error {
			_ = f(ctx)
			return r.Run(x)
		})
		if !errors.Is(err, reprise.ErrInCapture) {
			t.Errorf("%s inside a capture: %v", what, err)
		}
	}
	t.ok(t.queue.Run(t.ctx, x))
	t.ok(t.queue.Wait(t.ctx))
}

func meshEmptyTrace(t *meshFixture) {
	if _, err := t.queue.Capture(t.ctx, "nothing",
		func(context.Context, *mesh.Recorder) error { return nil }); !errors.Is(err, reprise.ErrEmptyTrace) {
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
		if !errors.Is(err, mesh.ErrWrongMesh) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func meshClosed(t *meshFixture) {
	in, _, x := t.setUp()
	t.ok(t.mesh.Close(t.Context()))
	t.ok(t.mesh.Close(t.Context()))
	for what, err := range map[string]error{
		"write": t.queue.Write(t.ctx, in, make([]byte, in.Size())), "run": t.queue.Run(t.ctx, x), "finish": t.queue.Wait(t.ctx),
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

// disturb makes every link do something to packets in both directions.
func (t *meshFixture) disturb(how ...string) {
	t.Helper()
	m := t.machine.Emulated
	for _, l := range m.Spec().Links {
		for _, h := range how {
			t.ok(m.Inject(fmt.Sprintf(h, fmt.Sprintf("%d:%d", l.Chip, l.Channel))))
			t.ok(m.Inject(fmt.Sprintf(h, fmt.Sprintf("%d:%d", l.PeerChip, l.PeerChannel))))
		}
	}
}

// collectives runs one of each kind, with the links as they are.
func (t *meshFixture) collectives(b *mesh.Buffer) {
	t.Helper()
	for round := range 2 {
		for i, c := range t.links.Line() {
			t.put(c, b, 1000*uint32(i+1))
		}
		x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
		t.carryOut(x, err)
		for _, c := range t.links.Line() {
			t.is(fmt.Sprintf("sum %d", round), c, b, t.sums(b.Size()))
		}
	}
	root := t.links.Line()[t.mesh.Size()-1]
	t.put(root, b, 77)
	x, err := t.links.Broadcast(t.ctx, b, root)
	t.carryOut(x, err)
	for _, c := range t.links.Line() {
		t.is("broadcast", c, b, counting(b.Size(), 77))
	}
}

func meshLostPackets(t *meshFixture) {
	b := t.linked()
	t.disturb("link-drop=%s/3")
	t.collectives(b)
}

func meshBadLinks(t *meshFixture) {
	b := t.linked()
	t.disturb("link-delay=%s/3")
	t.collectives(b)
	t.disturb("link-duplicate=%s/2")
	t.collectives(b)
}

// ownInterfaces skips a case that cuts links unless every chip has a PCI interface: others are lost with the links.
func (t *meshFixture) ownInterfaces() {
	t.Helper()
	if n := len(t.machine.Cards); n < t.mesh.Size() {
		t.Skipf("%d of %d chips are reached over links, and are lost with them", t.mesh.Size()-n, t.mesh.Size())
	}
}

// takeAway picks a card, and returns a function that takes it out of the machine, and the chips that are left then. It skips
// a case for which no chip would be left.
func (t *meshFixture) takeAway() (lost *mesh.Chip, unplug func() error, left []*mesh.Chip) {
	t.Helper()
	var cards []*mesh.Chip
	for _, c := range t.mesh.Chips() {
		if !strings.Contains(c.Name, "/") {
			cards = append(cards, c)
		}
	}
	lost = cards[len(cards)-1]
	for _, c := range t.mesh.Chips() {
		if c != lost && !strings.HasPrefix(c.Name, lost.Name+"/") {
			left = append(left, c)
		}
	}
	if len(left) == 0 {
		t.Skip("all chips are on one card")
	}
	drv, err := t.machine.Emulated.Driver()
	t.ok(err)
	return lost, func() error {
		for i, c := range t.machine.Emulated.Cards() {
			if c.String() == lost.Device.Name() {
				return drv.Unplug(i)
			}
		}
		return errors.New("there is no such card")
	}, left
}

// givesUp opens the mesh once more, with waits that end soon when nothing moves.
func (t *meshFixture) givesUp(soon, slow time.Duration) *mesh.Mesh {
	t.Helper()
	t.ok(t.mesh.Close(t.Context()))
	if t.device.Slow() {
		soon = slow
	}
	m, err := mesh.Open(t.ctx, mesh.Cards(t.machine.Cards...), t.mesh.Shape(), mesh.WithDevice(reprise.WithHangTimeout(soon)))
	t.ok(err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	t.mesh, t.queue = m, m.Queue(0)
	return m
}

func meshLinkDown(t *meshFixture) {
	t.ownInterfaces()
	m := t.givesUp(2*time.Second, 5*time.Second)
	b := t.linked()
	x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	t.ok(t.queue.Wait(t.ctx))
	t.everyLink(func(m *sim.Machine, chip, channel int) error { return m.SetLink(chip, channel, false) })
	t.ok(t.queue.Run(t.ctx, x))
	err = t.queue.Wait(t.ctx)
	var e *mesh.Error
	var he *dispatch.HangError
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
	lost, unplug, left := t.takeAway()
	_, out, x := t.setUp()
	tr := t.recorded(x)
	t.ok(t.queue.Wait(t.ctx))
	t.ok(unplug())
	var failed error
	for range 100 {
		if failed = errors.Join(tr.Replay(t.ctx), t.queue.Wait(t.ctx)); failed != nil {
			break
		}
	}
	var e *mesh.Error
	if !errors.As(failed, &e) || len(e.Chips) != t.mesh.Size() || !errors.Is(failed, reprise.ErrDeviceLost) {
		t.Fatalf("with card %s gone: %v", lost.Name, failed)
	}
	c := left[len(left)-1]
	part := t.on(tr, mesh.Range{Start: c.Coord, End: c.Coord})
	t.ok(part.Replay(context.WithoutCancel(t.ctx)))
	t.is("another chip", c, out, counting(out.Size(), 101+100*t.ordinal(c)))
}

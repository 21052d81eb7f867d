package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func faultCases() rig.Table {
	var cs rig.Table
	cs.Add("capture refuses", "a mesh refuses in a capture what a chip refuses", OnMesh(captureRefuses))
	cs.Add("empty trace", "a trace in which nothing was recorded on any chip is refused", OnMesh(emptyTrace))
	cs.Add("foreign objects", "objects of one mesh are refused by another, also by its submesh", OnMesh(meshForeign))
	cs.Add("closed", "a mesh that is closed refuses everything, and closing it again does nothing", OnOwnMesh(meshClosed))
	cs.Add("lost packets", "packets that a link loses, and that are therefore sent again, change no result", OnOwnMesh(lostPackets)).Needs = rig.NeedEmulator
	cs.Add("late and double packets", "packets that a link delays or repeats change no result", OnOwnMesh(badLinks)).Needs = rig.NeedEmulator
	cs.Add("link down", "a collective over a link that is down hangs with the state of all chips, and goes on once they are recovered", OnOwnMesh(linkDown)).Needs = rig.NeedEmulator
	cs.Add("card lost", "when a card is lost the error lists every chip of the mesh, and the others still replay", OnOwnMesh(cardLost)).Needs = rig.NeedEmulator
	return cs
}

func captureRefuses(t *T) {
	in, _, x := t.setUp()
	for what, f := range map[string]func(context.Context) error{
		"write":  func(ctx context.Context) error { return t.Queue.Write(ctx, in, make([]byte, in.Size())) },
		"finish": func(ctx context.Context) error { return t.Queue.Wait(ctx) },
		"run":    func(ctx context.Context) error { return t.Queue.Run(ctx, x) },
	} {
		_, err := t.Queue.Capture(t.Ctx, "refused", func(ctx context.Context, r *mesh.Recorder) error {
			_ = f(ctx)
			return r.Run(x)
		})
		t.Fails(what+" inside a capture", err, reprise.ErrInCapture)
	}
	t.Start(x)
	t.Wait()
}

func emptyTrace(t *T) {
	if _, err := t.Queue.Capture(t.Ctx, "nothing",
		func(context.Context, *mesh.Recorder) error { return nil }); !errors.Is(err, reprise.ErrEmptyTrace) {
		t.Errorf("nothing was recorded: %v", err)
	}
}

func meshForeign(t *T) {
	in, _, x := t.setUp()
	sub, err := t.Mesh.Submesh(mesh.Range{})
	t.OK(err)
	for what, err := range map[string]error{
		"write": sub.Queue(0).Write(t.Ctx, in, make([]byte, in.Size())),
		"run":   sub.Queue(0).Run(t.Ctx, x),
		"event": sub.Queue(0).Record(t.Ctx, t.Mesh.NewEvent("e")),
	} {
		t.Fails(what, err, mesh.ErrWrongMesh)
	}
}

func meshClosed(t *T) {
	in, _, x := t.setUp()
	t.OK(t.Mesh.Close(t.Context()))
	t.OK(t.Mesh.Close(t.Context()))
	for what, err := range map[string]error{
		"write": t.Queue.Write(t.Ctx, in, make([]byte, in.Size())), "run": t.Queue.Run(t.Ctx, x), "finish": t.Queue.Wait(t.Ctx),
	} {
		t.Fails(what, err, mesh.ErrClosed)
	}
}

// everyLink does something with every link of the machine.
func (t *T) everyLink(do func(m *sim.Machine, chip, channel int) error) {
	t.Helper()
	for _, l := range t.machine.Emulated.Spec().Links {
		t.OK(do(t.machine.Emulated, l.Chip, l.Channel))
	}
}

// disturb makes every link do something to packets in both directions.
func (t *T) disturb(how ...string) {
	t.Helper()
	m := t.machine.Emulated
	for _, l := range m.Spec().Links {
		for _, h := range how {
			t.OK(m.Inject(fmt.Sprintf(h, fmt.Sprintf("%d:%d", l.Chip, l.Channel))))
			t.OK(m.Inject(fmt.Sprintf(h, fmt.Sprintf("%d:%d", l.PeerChip, l.PeerChannel))))
		}
	}
}

// collectives runs one of each kind, with the links as they are.
func (t *T) collectives(b *mesh.Buffer) {
	t.Helper()
	for round := range 2 {
		for i, c := range t.Links.Line() {
			t.Put(c, b, 1000*uint32(i+1))
		}
		x, err := t.Links.AllReduce(t.Ctx, b, mesh.SumInt32)
		t.carryOut(x, err)
		t.all(fmt.Sprintf("sum %d", round), b, t.sums(b.Size()))
	}
	root := t.Links.Line()[t.Mesh.Size()-1]
	t.Put(root, b, 77)
	t.carryOut(t.Links.Broadcast(t.Ctx, b, root))
	t.all("broadcast", b, Counting(b.Size(), 77))
}

func lostPackets(t *T) {
	b := t.Linked()
	t.disturb("link-drop=%s/3")
	t.collectives(b)
}

func badLinks(t *T) {
	b := t.Linked()
	t.disturb("link-delay=%s/3")
	t.collectives(b)
	t.disturb("link-duplicate=%s/2")
	t.collectives(b)
}

// ownInterfaces skips a case that cuts links unless every chip has a PCI interface: others are lost
// with the links.
func (t *T) ownInterfaces() {
	t.Helper()
	if n := len(t.machine.Cards); n < t.Mesh.Size() {
		t.Skipf("%d of %d chips are reached over links, and are lost with them", t.Mesh.Size()-n, t.Mesh.Size())
	}
}

// takeAway picks a card, and returns a function that takes it out of the machine, and the chips
// that are left then. It skips a case for which no chip would be left.
func (t *T) takeAway() (lost *mesh.Chip, unplug func() error, left []*mesh.Chip) {
	t.Helper()
	var cards []*mesh.Chip
	for _, c := range t.Mesh.Chips() {
		if !strings.Contains(c.Name, "/") {
			cards = append(cards, c)
		}
	}
	lost = cards[len(cards)-1]
	for _, c := range t.Mesh.Chips() {
		if c != lost && !strings.HasPrefix(c.Name, lost.Name+"/") {
			left = append(left, c)
		}
	}
	if len(left) == 0 {
		t.Skip("all chips are on one card")
	}
	drv, err := t.machine.Emulated.Driver()
	t.OK(err)
	return lost, func() error {
		for i, c := range t.machine.Emulated.Cards() {
			if c.String() == lost.Device.Name() {
				return drv.Unplug(i)
			}
		}
		return errors.New("there is no such card")
	}, left
}

// GivesUp opens the mesh once more, with waits that end soon when nothing moves.
func (t *T) GivesUp(soon, slow time.Duration) *mesh.Mesh {
	t.Helper()
	t.OK(t.Mesh.Close(t.Context()))
	if t.Device.Slow() {
		soon = slow
	}
	m, err := mesh.Open(t.Ctx, mesh.Cards(t.machine.Cards...), t.Mesh.Shape(), mesh.WithDevice(reprise.WithHangTimeout(soon)))
	t.OK(err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	t.Mesh, t.Queue = m, m.Queue(0)
	return m
}

func linkDown(t *T) {
	t.ownInterfaces()
	m := t.GivesUp(2*time.Second, 5*time.Second)
	b := t.Linked()
	x, err := t.Links.AllReduce(t.Ctx, b, mesh.SumInt32)
	t.OK(err)
	t.Wait()
	t.everyLink(func(m *sim.Machine, chip, channel int) error { return m.SetLink(chip, channel, false) })
	t.Start(x)
	err = t.Queue.Wait(t.Ctx)
	var e *mesh.Error
	var he *dispatch.HangError
	if !errors.As(err, &e) || len(e.Chips) != m.Size() || !errors.As(err, &he) {
		t.Errorf("all links are down: %v", err)
	}
	t.everyLink(func(m *sim.Machine, chip, channel int) error { return m.SetLink(chip, channel, true) })
	for _, c := range m.Chips() {
		t.OK(c.Device.Recover(t.Ctx))
	}
	b = t.Linked()
	t.carryOut(t.Links.AllReduce(t.Ctx, b, mesh.SumInt32))
	t.all("sum", b, t.sums(b.Size()))
}

func cardLost(t *T) {
	lost, unplug, left := t.takeAway()
	_, out, x := t.setUp()
	tr := t.recorded(x)
	t.Wait()
	t.OK(unplug())
	var failed error
	for range 100 {
		if failed = errors.Join(tr.Replay(t.Ctx), t.Queue.Wait(t.Ctx)); failed != nil {
			break
		}
	}
	var e *mesh.Error
	if !errors.As(failed, &e) || len(e.Chips) != t.Mesh.Size() || !errors.Is(failed, reprise.ErrDeviceLost) {
		t.Fatalf("with card %s gone: %v", lost.Name, failed)
	}
	c := left[len(left)-1]
	part := t.On(tr, mesh.Range{Start: c.Coord, End: c.Coord})
	t.OK(part.Replay(context.WithoutCancel(t.Ctx)))
	t.Is("another chip", c, out, Counting(out.Size(), 101+100*t.Ordinal(c)))
}

func hangCases() rig.Table {
	var cs rig.Table
	cs.Add("link down in the middle", "a link that goes down during collectives never makes a wrong result, and collectives continue when it comes back", OnOwnMesh(downInTheMiddle)).Needs = rig.NeedEmulator
	cs.Add("card lost in the middle", "a card that is lost during replays ends them with the state of every chip", OnOwnMesh(lostInTheMiddle)).Needs = rig.NeedEmulator
	cs.Add("slow links", "one chip whose packets all come late delays the others and changes nothing", OnOwnMesh(slowChip)).Needs = rig.NeedEmulator
	cs.Add("one chip hangs", "the error of a hang says which chip it is, the others work on, and so does that one after it is recovered", OnOwnMesh(oneHangs)).Needs = rig.NeedSimulator
	return cs
}

func downInTheMiddle(t *T) {
	t.ownInterfaces()
	b := t.Linked()
	x, err := t.Links.AllReduce(t.Ctx, b, mesh.MaxInt32)
	t.OK(err)
	sum, err := t.Links.AllReduce(t.Ctx, b, mesh.SumInt32)
	t.OK(err)
	t.Wait()
	for range 8 {
		t.Start(x)
	}
	t.Start(sum)
	t.everyLink(func(m *sim.Machine, chip, channel int) error { return m.SetLink(chip, channel, false) })
	short, cancel := context.WithTimeout(t.Ctx, 200*time.Millisecond)
	defer cancel()
	var e *mesh.Error
	if err := t.Queue.Wait(short); err != nil && (!errors.As(err, &e) || len(e.Chips) != t.Mesh.Size()) {
		t.Errorf("while the links are down: %v", err)
	}
	t.everyLink(func(m *sim.Machine, chip, channel int) error { return m.SetLink(chip, channel, true) })
	long, cancel := context.WithTimeout(t.Ctx, 5*time.Second)
	defer cancel()
	if err := t.Queue.Wait(long); err != nil {
		// Packets that were on their way are gone for good. Then every chip is recovered, and no
		// chip took a wrong sum for a right one.
		for _, c := range t.Mesh.Chips() {
			t.OK(c.Device.Recover(t.Ctx))
		}
		b = t.Linked()
		sum, err = t.Links.AllReduce(t.Ctx, b, mesh.SumInt32)
		t.carryOut(sum, err)
		t.all("sum", b, t.sums(b.Size()))
		return
	}
	var all []byte
	n := uint32(t.Mesh.Size())
	for i := range uint32(b.Size() / 4) {
		all = append(all, Counting(4, n*(1000*n+i))...)
	}
	t.all("sum of maxima", b, all)
}

func lostInTheMiddle(t *T) {
	lost, unplug, left := t.takeAway()
	b := t.Pages("sum")
	t.Write(b, Counting(b.Size(), 0))
	tr := t.recorded(t.Loaded(t.adder(b, b, Add(1))))
	t.Wait()
	gone := make(chan error, 1)
	var failed error
	for i := 0; failed == nil && i < 1e6; i++ {
		if i == 20 {
			go func() { gone <- unplug() }()
		}
		failed = tr.Replay(t.Ctx)
		if i%16 == 15 {
			failed = errors.Join(failed, t.Queue.Wait(t.Ctx))
		}
	}
	t.OK(<-gone)
	var e *mesh.Error
	if !errors.As(failed, &e) || len(e.Chips) != t.Mesh.Size() || !errors.Is(failed, reprise.ErrDeviceLost) {
		t.Fatalf("with a card gone: %v", failed)
	}
	for _, s := range e.Failed() {
		if slices.ContainsFunc(left, func(c *mesh.Chip) bool { return c.Name == s.Name }) {
			t.Errorf("card %s is gone, and chip %s failed: %v", lost.Name, s.Name, s.Err)
		}
	}
	first := left[0]
	t.OK(t.Queue.On(first).Write(t.Ctx, b.On(first), 0, Counting(b.Size(), 0)))
	part := t.On(tr, mesh.Range{Start: first.Coord, End: first.Coord})
	t.Replay(part)
	t.Is("another chip", first, b, Counting(b.Size(), 1))
}

func slowChip(t *T) {
	b := t.Linked()
	slow := 0
	m := t.machine.Emulated
	for _, l := range m.Spec().Links {
		if l.Chip == 0 {
			t.OK(m.Inject(fmt.Sprintf("link-delay=%d:%d", l.Chip, l.Channel)))
			slow++
		}
		if l.PeerChip == 0 {
			t.OK(m.Inject(fmt.Sprintf("link-delay=%d:%d", l.PeerChip, l.PeerChannel)))
			slow++
		}
	}
	if slow == 0 {
		t.Error("the first chip has no links")
	}
	t.collectives(b)
}

func oneHangs(t *T) {
	m := t.GivesUp(2*time.Second, 10*time.Second)
	_, out, x := t.setUp()
	stuck := m.Chips()[m.Size()-1]
	word, err := stuck.Device.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64, Name: "word"})
	t.OK(err)
	q := t.Queue.On(stuck)
	t.OK(q.Write(t.Ctx, word, 0, make([]byte, 64)))
	spin, err := kernels.Prebuilt(stuck.Device.Arch(), kernels.Spin)
	t.OK(err)
	forever, err := stuck.Device.Load(t.Ctx, &reprise.Program{Name: "forever", Kernels: []reprise.Kernel{{
		Name: "wait", Image: spin, Processor: chip.TRISC1, Cores: []chip.Range{chip.Single(0, 0)},
		Args: rig.Args(word.Addr(), 1),
	}}})
	t.OK(err)
	t.OK(q.Run(t.Ctx, forever))
	t.Start(x)
	err = t.Queue.Wait(t.Ctx)
	var e *mesh.Error
	var h *dispatch.HangError
	if !errors.As(err, &e) || len(e.Failed()) != 1 || e.Failed()[0].Name != stuck.Name || !errors.As(err, &h) {
		t.Fatalf("chip %s hangs: %v", stuck.Name, err)
	}
	for _, c := range m.Chips()[:m.Size()-1] {
		t.Is("another chip", c, out, Counting(out.Size(), 101+100*t.Ordinal(c)))
	}
	t.OK(stuck.Device.Recover(t.Ctx))
	t.Start(x)
	for _, c := range m.Chips() {
		t.Is("recovered", c, out, Counting(out.Size(), 101+100*t.Ordinal(c)))
	}
}

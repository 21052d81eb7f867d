package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		// Packets that were on their way are gone for good. Then every chip is recovered, and no chip took a wrong sum for a
		// right one.
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

package hwtest

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
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func meshHangCases() []testCase {
	return []testCase{
		{name: "link down in the middle", needs: needEmulator, protects: "a link that goes down during collectives never makes a wrong result, and collectives continue when it comes back", fn: onOwnMesh(meshDownInTheMiddle)},
		{name: "card lost in the middle", needs: needEmulator, protects: "a card that is lost during replays ends them with the state of every chip", fn: onOwnMesh(meshLostInTheMiddle)},
		{name: "slow links", needs: needEmulator, protects: "one chip whose packets all come late delays the others and changes nothing", fn: onOwnMesh(meshSlowChip)},
		{name: "one chip hangs", needs: needSimulator, protects: "the error of a hang says which chip it is, the others work on, and so does that one after it is recovered", fn: onOwnMesh(meshOneHangs)},
	}
}

func meshDownInTheMiddle(t *meshFixture) {
	t.ownInterfaces()
	b := t.linked()
	x, err := t.links.AllReduce(t.ctx, b, mesh.MaxInt32)
	t.ok(err)
	sum, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	t.ok(t.queue.Wait(t.ctx))
	for range 8 {
		t.ok(t.queue.Run(t.ctx, x))
	}
	t.ok(t.queue.Run(t.ctx, sum))
	t.everyLink(func(m *sim.Machine, chip, channel int) error { return m.SetLink(chip, channel, false) })
	short, cancel := context.WithTimeout(t.ctx, 200*time.Millisecond)
	defer cancel()
	var e *mesh.Error
	if err := t.queue.Wait(short); err != nil && (!errors.As(err, &e) || len(e.Chips) != t.mesh.Size()) {
		t.Errorf("while the links are down: %v", err)
	}
	t.everyLink(func(m *sim.Machine, chip, channel int) error { return m.SetLink(chip, channel, true) })
	long, cancel := context.WithTimeout(t.ctx, 5*time.Second)
	defer cancel()
	if err := t.queue.Wait(long); err != nil {
		// Packets that were on their way are gone for good. Then every chip is recovered, and no chip took a wrong sum for a
		// right one.
		for _, c := range t.mesh.Chips() {
			t.ok(c.Device.Recover(t.ctx))
		}
		b = t.linked()
		sum, err = t.links.AllReduce(t.ctx, b, mesh.SumInt32)
		t.carryOut(sum, err)
		for _, c := range t.links.Line() {
			t.is("sum", c, b, t.sums(b.Size()))
		}
		return
	}
	var all []byte
	n := uint32(t.mesh.Size())
	for i := range uint32(b.Size() / 4) {
		all = append(all, counting(4, n*(1000*n+i))...)
	}
	for _, c := range t.links.Line() {
		t.is("sum of maxima", c, b, all)
	}
}

func meshLostInTheMiddle(t *meshFixture) {
	lost, unplug, left := t.takeAway()
	b := t.pages("sum")
	t.ok(t.queue.Write(t.ctx, b, counting(b.Size(), 0)))
	tr := t.recorded(t.loaded(t.adder(b, b, add(1))))
	t.ok(t.queue.Wait(t.ctx))
	gone := make(chan error, 1)
	var failed error
	for i := 0; failed == nil && i < 1e6; i++ {
		if i == 20 {
			go func() { gone <- unplug() }()
		}
		failed = tr.Replay(t.ctx)
		if i%16 == 15 {
			failed = errors.Join(failed, t.queue.Wait(t.ctx))
		}
	}
	t.ok(<-gone)
	var e *mesh.Error
	if !errors.As(failed, &e) || len(e.Chips) != t.mesh.Size() || !errors.Is(failed, reprise.ErrDeviceLost) {
		t.Fatalf("with a card gone: %v", failed)
	}
	for _, s := range e.Failed() {
		if slices.ContainsFunc(left, func(c *mesh.Chip) bool { return c.Name == s.Name }) {
			t.Errorf("card %s is gone, and chip %s failed: %v", lost.Name, s.Name, s.Err)
		}
	}
	first := left[0]
	t.ok(t.queue.On(first).Write(t.ctx, b.On(first), 0, counting(b.Size(), 0)))
	part := t.on(tr, mesh.Range{Start: first.Coord, End: first.Coord})
	t.ok(part.Replay(t.ctx))
	t.is("another chip", first, b, counting(b.Size(), 1))
}

func meshSlowChip(t *meshFixture) {
	b := t.linked()
	slow := 0
	m := t.machine.Emulated
	for _, l := range m.Spec().Links {
		if l.Chip == 0 {
			t.ok(m.Inject(fmt.Sprintf("link-delay=%d:%d", l.Chip, l.Channel)))
			slow++
		}
		if l.PeerChip == 0 {
			t.ok(m.Inject(fmt.Sprintf("link-delay=%d:%d", l.PeerChip, l.PeerChannel)))
			slow++
		}
	}
	if slow == 0 {
		t.Error("the first chip has no links")
	}
	t.collectives(b)
}

func meshOneHangs(t *meshFixture) {
	m := t.givesUp(2*time.Second, 10*time.Second)
	_, out, x := t.setUp()
	stuck := m.Chips()[m.Size()-1]
	word, err := stuck.Device.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64, Name: "word"})
	t.ok(err)
	q := t.queue.On(stuck)
	t.ok(q.Write(t.ctx, word, 0, make([]byte, 64)))
	spin, err := kernels.Prebuilt(stuck.Device.Arch(), kernels.Spin)
	t.ok(err)
	forever, err := stuck.Device.Load(t.ctx, &reprise.Program{Name: "forever", Kernels: []reprise.Kernel{{
		Name: "wait", Image: spin, Processor: chip.TRISC1, Cores: []chip.Range{chip.Single(0, 0)},
		Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} },
	}}})
	t.ok(err)
	t.ok(q.Run(t.ctx, forever))
	t.ok(t.queue.Run(t.ctx, x))
	err = t.queue.Wait(t.ctx)
	var e *mesh.Error
	var h *dispatch.HangError
	if !errors.As(err, &e) || len(e.Failed()) != 1 || e.Failed()[0].Name != stuck.Name || !errors.As(err, &h) {
		t.Fatalf("chip %s hangs: %v", stuck.Name, err)
	}
	for _, c := range m.Chips()[:m.Size()-1] {
		t.is("another chip", c, out, counting(out.Size(), 101+100*t.ordinal(c)))
	}
	t.ok(stuck.Device.Recover(t.ctx))
	t.ok(t.queue.Run(t.ctx, x))
	for _, c := range m.Chips() {
		t.is("recovered", c, out, counting(out.Size(), 101+100*t.ordinal(c)))
	}
}

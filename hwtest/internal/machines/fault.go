package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/mesh"
)

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
	t.Fails("nothing was recorded", rig.Error(t.Record("nothing", func(*mesh.Recorder) error { return nil })), reprise.ErrEmptyTrace)
}

func meshForeign(t *T) {
	in, _, x := t.setUp()
	sub, err := t.Mesh.Submesh(mesh.Range{})
	t.OK(err)
	t.AllFail(mesh.ErrWrongMesh, map[string]error{
		"write": sub.Queue(0).Write(t.Ctx, in, make([]byte, in.Size())),
		"run":   sub.Queue(0).Run(t.Ctx, x),
		"event": sub.Queue(0).Record(t.Ctx, t.Mesh.NewEvent("e")),
	})
}

func meshClosed(t *T) {
	in, _, x := t.setUp()
	t.OK(t.Mesh.Close(t.Context()))
	t.OK(t.Mesh.Close(t.Context()))
	t.AllFail(mesh.ErrClosed, map[string]error{
		"write": t.Queue.Write(t.Ctx, in, make([]byte, in.Size())), "run": t.Queue.Run(t.Ctx, x), "finish": t.Queue.Wait(t.Ctx),
	})
}

func (t *T) setLinks(up bool) {
	for _, l := range t.machine.Emulated.Spec().Links {
		t.OK(t.machine.Emulated.SetLink(l.Chip, l.Channel, up))
	}
}

func (t *T) afterRecovery() {
	for _, c := range t.Mesh.Chips() {
		t.OK(c.Device.Recover(t.Ctx))
	}
	t.addsUp(t.Linked())
}

// OnChip is the case on one chip of the mesh.
func (t *T) OnChip(c *mesh.Chip) *rig.T {
	u := *t.T
	u.UseDevice(c.Device)
	u.Queue = t.Queue.On(c)
	return &u
}

// ofAllChips returns the error of a mesh, which lists every chip.
func (t *T) ofAllChips(err error) *mesh.Error {
	e := rig.As[*mesh.Error](t, err)
	rig.Equal(t, len(e.Chips), t.Mesh.Size(), "chips in the error")
	return e
}

// HungAlone waits for a hang of one chip alone.
func (t *T) HungAlone(stuck *mesh.Chip) *dispatch.HangError {
	err := t.Queue.Wait(t.Ctx)
	if e := rig.As[*mesh.Error](t, err); len(e.Failed()) != 1 || e.Failed()[0].Name != stuck.Name {
		t.Fatalf("chip %s hangs: %v", stuck.Name, err)
	}
	return t.Hung(err)
}

// disturb injects a fault into the links of some chips.
func (t *T) disturb(how string, of func(chip int) bool) {
	ends := 0
	for _, l := range t.machine.Emulated.Spec().Links {
		for _, end := range [][2]int{{l.Chip, l.Channel}, {l.PeerChip, l.PeerChannel}} {
			if of(end[0]) {
				t.OK(t.machine.Emulated.Inject(fmt.Sprintf(how, fmt.Sprintf("%d:%d", end[0], end[1]))))
				ends++
			}
		}
	}
	if ends == 0 {
		t.Error("the chips have no links")
	}
}

func anyChip(int) bool { return true }

func (t *T) collectives(b *mesh.Buffer) {
	for range 2 {
		t.putAll(b)
		t.addsUp(b)
	}
	root := t.Links.Line()[t.Mesh.Size()-1]
	t.Put(root, b, 77)
	t.carryOut(t.Links.Broadcast(t.Ctx, b, root))
	t.AllCount("broadcast", b, 77)
}

func lostPackets(t *T) {
	b := t.Linked()
	t.disturb("link-drop=%s/3", anyChip)
	t.collectives(b)
}

func badLinks(t *T) {
	b := t.Linked()
	t.disturb("link-delay=%s/3", anyChip)
	t.collectives(b)
	t.disturb("link-duplicate=%s/2", anyChip)
	t.collectives(b)
}

// ownInterfaces skips unless every chip has a PCI interface: others are lost with the links.
func (t *T) ownInterfaces() {
	if n := len(t.machine.Cards); n < t.Mesh.Size() {
		t.Skipf("%d of %d chips are reached over links, and are lost with them", t.Mesh.Size()-n, t.Mesh.Size())
	}
}

// takeAway picks a card, and returns what unplugs it and the chips that are left then.
func (t *T) takeAway() (lost *mesh.Chip, unplug func() error, left []*mesh.Chip) {
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

// GivesUp opens the mesh with short waits.
func (t *T) GivesUp(soon, slow time.Duration) *mesh.Mesh {
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
	t.GivesUp(2*time.Second, 5*time.Second)
	b := t.Linked()
	x := t.AllSum(b)
	t.Wait()
	t.setLinks(false)
	t.Start(x)
	err := t.Queue.Wait(t.Ctx)
	t.Hung(err)
	t.ofAllChips(err)
	t.setLinks(true)
	t.afterRecovery()
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
	t.Fails("with card "+lost.Name+" gone", failed, reprise.ErrDeviceLost)
	t.ofAllChips(failed)
	c := left[len(left)-1]
	t.OK(t.On(tr, Only(c)).Replay(context.WithoutCancel(t.Ctx)))
	t.Is("another chip", c, out, Counting(out.Size(), setUpSum(t.Ordinal(c))))
}

func downInTheMiddle(t *T) {
	t.ownInterfaces()
	b := t.Linked()
	x, sum := t.AllReduce(b, mesh.MaxInt32), t.AllSum(b)
	t.Wait()
	for range 8 {
		t.Start(x)
	}
	t.Start(sum)
	t.setLinks(false)
	short, cancel := context.WithTimeout(t.Ctx, 200*time.Millisecond)
	defer cancel()
	if err := t.Queue.Wait(short); err != nil {
		t.ofAllChips(err)
	}
	t.setLinks(true)
	long, cancel := context.WithTimeout(t.Ctx, 5*time.Second)
	defer cancel()
	if err := t.Queue.Wait(long); err != nil {
		// Packets on their way are lost; no chip took a wrong sum for a right one.
		t.afterRecovery()
		return
	}
	n := uint32(t.Mesh.Size())
	t.All("sum of maxima", b, rig.MakeWords(b.Size(), func(i uint32) uint32 { return n * (1000*n + i) }))
}

func lostInTheMiddle(t *T) {
	lost, unplug, left := t.takeAway()
	b, tr := t.added()
	t.Wait()
	gone := make(chan error, 1)
	var failed error
	for i := 0; failed == nil && i < 1e6; i++ {
		if i == 20 {
			go func() { gone <- unplug() }()
		}
		failed = tr.Replay(t.Ctx)
		if failed != nil || i%16 == 15 {
			failed = errors.Join(failed, t.Queue.Wait(t.Ctx))
		}
	}
	t.OK(<-gone)
	t.Fails("with card "+lost.Name+" gone", failed, reprise.ErrDeviceLost)
	for _, s := range t.ofAllChips(failed).Failed() {
		if slices.ContainsFunc(left, func(c *mesh.Chip) bool { return c.Name == s.Name }) {
			t.Errorf("card %s is gone, and chip %s failed: %v", lost.Name, s.Name, s.Err)
		}
	}
	first := left[0]
	t.Put(first, b, 0)
	t.Replay(t.On(tr, Only(first)))
	t.Is("another chip", first, b, Counting(b.Size(), 1))
}

func slowChip(t *T) {
	b := t.Linked()
	t.disturb("link-delay=%s", func(chip int) bool { return chip == 0 })
	t.collectives(b)
}

func oneHangs(t *T) {
	m := t.GivesUp(2*time.Second, 10*time.Second)
	_, out, x := t.setUp()
	stuck := m.Chips()[m.Size()-1]
	on := t.OnChip(stuck)
	on.Start(on.Load(on.Spin(on.PerWorker(16), chip.TRISC1, chip.Range{})))
	t.Start(x)
	t.HungAlone(stuck)
	for _, c := range m.Chips()[:m.Size()-1] {
		t.Is("another chip", c, out, Counting(out.Size(), setUpSum(t.Ordinal(c))))
	}
	t.OK(stuck.Device.Recover(t.Ctx))
	t.Start(x)
	t.Are("recovered", out, setUpSum)
}

package hwtest

import (
	"context"
	"errors"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/sim"
)

func lostCases() []testCase {
	return []testCase{
		{name: "dispatcher is stopped", unsafe: hangs, needs: needSimulator,
			protects: "a dispatcher that is held in reset is a *HangError that says so, and the next open works", fn: stoppedDispatcher},
		{name: "card is removed during replays", needs: needEmulator,
			protects: "a card that is taken out while it replays is ErrDeviceLost in every call, and the device can still be closed",
			fn:       removedCard},
		{name: "double release", protects: "a second release is ErrReleased and takes no memory from its new owner", fn: doubleRelease},
	}
}

func stoppedDispatcher(t *fixture) {
	u := t.shortQueues()
	core := u.dispatchCore()
	xy, reg := u.virtual(core), uint64(u.p.SoftReset)
	reset, err := u.kd.Read32(xy, reg)
	t.ok(err)
	t.ok(u.kd.Write32(xy, reg, reset|chip.BRISC.ResetBit()))
	t.ok(u.q.Send(u.ctx, u.commands(func(b *cq.Builder) {
		b.WriteLinear(cq.WriteLinear{NOC: u.nocXY(u.grid().Start), Addr: scratch, Data: pattern(1, 64)})
	}), false))
	err = u.q.Wait(u.ctx)
	var hang *dispatch.HangError
	if !errors.As(err, &hang) || !errors.Is(err, dispatch.ErrTimeout) {
		t.Fatalf("error %v, want a *HangError after no progress", err)
	}
	if want := "(dispatch): held in reset: BRISC"; !strings.Contains(strings.ReplaceAll(hang.Detail(), "\n", " "), want) {
		t.Errorf("the report lacks %q:\n%s", want, hang.Detail())
	}
	_ = u.disp.Close(t.Context())
	_ = u.kd.Close()
	t.worksAgain()
}

func removedCard(t *fixture) {
	card, ok := t.device.Open().(*sim.Card)
	if !ok {
		t.Skip("nobody can take this card out")
	}
	drv, err := card.Driver()
	t.ok(err)
	dev, err := t.open(t.ctx, card, reprise.WithHangTimeout(t.patience()), reprise.WithQueues(2)) // waits poll the other queue, too
	t.ok(err)
	t.Cleanup(func() { _ = dev.Close(context.Background()) })
	u := *t
	u.useDevice(dev)
	f := u.follow()
	x, err := dev.Load(t.ctx, u.mixProgram("removed", u.grid(), f.b, 4, 0))
	t.ok(err)
	tr, err := u.rq.Capture(t.ctx, "removed", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	t.ok(err)
	for range 20 {
		t.ok(tr.Replay(t.ctx))
	}
	pulled := make(chan error, 1)
	go func() { pulled <- drv.Unplug(0) }() // while the replays go on
	for err == nil {
		if err = tr.Replay(t.ctx); err == nil {
			err = u.rq.Wait(t.ctx)
		}
	}
	t.ok(<-pulled)
	for name, err := range map[string]error{
		"replay or wait": err,
		"replay":         tr.Replay(t.ctx),
		"run":            u.rq.Run(t.ctx, x),
		"write":          u.rq.Write(t.ctx, f.b, 0, make([]byte, 16)),
		"finish":         u.rq.Wait(t.ctx),
	} {
		if !errors.Is(err, reprise.ErrDeviceLost) {
			t.Errorf("%s: error %v, want ErrDeviceLost", name, err)
		}
	}
	var failed *reprise.RecoverError
	if err := dev.Recover(t.ctx); !errors.As(err, &failed) || failed.Step != "reopen" {
		t.Errorf("recover without a card: error %v, want a *RecoverError of the reopening", err)
	}
	t.ok(dev.Close(t.Context()))
	if n := drv.Node(0).OpenFiles(); n != 0 {
		t.Errorf("%d files of the driver are still open", n)
	}
	t.worksAgain()
}

func doubleRelease(t *fixture) {
	u := t.opened(t.patience())
	use := func(number uint32) (*follow, *reprise.Executable, *reprise.Trace) {
		f := u.follow()
		x := u.load(u.mixProgram("twice", u.grid(), f.b, number, 0))
		return f, x, u.capture("twice", x)
	}
	replay := func(f *follow, tr *reprise.Trace, number uint32) {
		t.ok(tr.Replay(t.ctx))
		f.run(number, u.grid())
		f.check("after a replay")
	}
	f, x, tr := use(1)
	replay(f, tr, 1)
	free := func(context.Context) error { return f.b.Release() }
	for _, release := range []func(context.Context) error{tr.Release, x.Release, free} {
		t.ok(release(t.ctx))
	}
	g, _, second := use(2) // takes the places that the first ones had
	before := u.allocated()
	for name, err := range map[string]error{
		"release trace":      tr.Release(t.ctx),
		"release executable": x.Release(t.ctx),
		"release buffer":     f.b.Release(),
		"replay trace":       tr.Replay(t.ctx),
		"run":                u.rq.Run(t.ctx, x),
		"write":              u.rq.Write(t.ctx, f.b, 0, make([]byte, 16)),
	} {
		if !errors.Is(err, reprise.ErrReleased) {
			t.Errorf("%s again: error %v, want ErrReleased", name, err)
		}
		t.says(err, "reprise: "+name)
	}
	if after := u.allocated(); after != before {
		t.Errorf("allocated are %+v, before that %+v", after, before)
	}
	replay(g, second, 2)
}

package faults

import (
	"context"
	"errors"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/sim"
)

func lostCases() rig.Table {
	var cs rig.Table
	cs.AddHang("dispatcher is stopped", "a dispatcher that is held in reset is a *HangError that says so, and the next open works", stoppedDispatcher)
	cs.Add("card is removed during replays", "a card that is taken out while it replays is ErrDeviceLost in every call, and the device can still be closed", removedCard).Needs = rig.NeedEmulator
	cs.Add("double release", "a second release is ErrReleased and takes no memory from its new owner", doubleRelease)
	return cs
}

func stoppedDispatcher(t *rig.T) {
	u := t.ShortQueues()
	core := u.DispatchCore()
	xy, reg := u.Virtual(core), uint64(u.Params.SoftReset)
	reset, err := u.KMD.Read32(xy, reg)
	t.OK(err)
	t.OK(u.KMD.Write32(xy, reg, reset|chip.BRISC.ResetBit()))
	t.OK(u.CQ.Send(u.Ctx, u.Commands(func(b *cq.Builder) {
		u.WriteTile(b, u.Grid().Start, rig.Scratch, rig.Pattern(1, 64))
	}), false))
	err = u.CQ.Wait(u.Ctx)
	var hang *dispatch.HangError
	if !errors.As(err, &hang) || !errors.Is(err, dispatch.ErrTimeout) {
		t.Fatalf("error %v, want a *HangError after no progress", err)
	}
	if want := "(dispatch): held in reset: BRISC"; !strings.Contains(strings.ReplaceAll(hang.Detail(), "\n", " "), want) {
		t.Errorf("the report lacks %q:\n%s", want, hang.Detail())
	}
	_ = u.Dispatch.Close(t.Context())
	_ = u.KMD.Close()
	t.WorksAgain()
}

func removedCard(t *rig.T) {
	card, ok := t.Device.Open().(*sim.Card)
	if !ok {
		t.Skip("nobody can take this card out")
	}
	drv, err := card.Driver()
	t.OK(err)
	dev, err := t.Open(t.Ctx, card, reprise.WithHangTimeout(t.Patience()), reprise.WithQueues(2)) // waits poll the other queue, too
	t.OK(err)
	t.Cleanup(func() { _ = dev.Close(context.Background()) })
	u := *t
	u.UseDevice(dev)
	f := u.Follow()
	x, err := dev.Load(t.Ctx, u.MixProgram("removed", u.Grid(), f.Buffer, 4, 0))
	t.OK(err)
	tr, err := u.Queue.Capture(t.Ctx, "removed", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	t.OK(err)
	for range 20 {
		t.Replay(tr)
	}
	pulled := make(chan error, 1)
	go func() { pulled <- drv.Unplug(0) }() // while the replays go on
	for err == nil {
		if err = tr.Replay(t.Ctx); err == nil {
			err = u.Queue.Wait(t.Ctx)
		}
	}
	t.OK(<-pulled)
	for name, err := range map[string]error{
		"replay or wait": err,
		"replay":         tr.Replay(t.Ctx),
		"run":            u.Queue.Run(t.Ctx, x),
		"write":          u.Queue.Write(t.Ctx, f.Buffer, 0, make([]byte, 16)),
		"finish":         u.Queue.Wait(t.Ctx),
	} {
		t.Fails(name, err, reprise.ErrDeviceLost)
	}
	var failed *reprise.RecoverError
	if err := dev.Recover(t.Ctx); !errors.As(err, &failed) || failed.Step != "reopen" {
		t.Errorf("recover without a card: error %v, want a *RecoverError of the reopening", err)
	}
	t.OK(dev.Close(t.Context()))
	if n := drv.Node(0).OpenFiles(); n != 0 {
		t.Errorf("%d files of the driver are still open", n)
	}
	t.WorksAgain()
}

func doubleRelease(t *rig.T) {
	u := t.Opened(t.Patience())
	use := func(number uint32) (*rig.Mix, *reprise.Executable, *reprise.Trace) {
		f := u.Follow()
		x := f.Load("twice", number)
		return f, x, u.Capture("twice", x)
	}
	replay := func(f *rig.Mix, tr *reprise.Trace, number uint32) {
		t.Replay(tr)
		f.Run(number)
		f.Check("after a replay")
	}
	f, x, tr := use(1)
	replay(f, tr, 1)
	free := func(context.Context) error { return f.Buffer.Release() }
	for _, release := range []func(context.Context) error{tr.Release, x.Release, free} {
		t.OK(release(t.Ctx))
	}
	g, _, second := use(2) // takes the places that the first ones had
	before := u.Allocated()
	for name, err := range map[string]error{
		"release trace":      tr.Release(t.Ctx),
		"release executable": x.Release(t.Ctx),
		"release buffer":     f.Buffer.Release(),
		"replay trace":       tr.Replay(t.Ctx),
		"run":                u.Queue.Run(t.Ctx, x),
		"write":              u.Queue.Write(t.Ctx, f.Buffer, 0, make([]byte, 16)),
	} {
		t.Fails(name+" again", err, reprise.ErrReleased)
		t.Says(err, "reprise: "+name)
	}
	if after := u.Allocated(); after != before {
		t.Errorf("allocated are %+v, before that %+v", after, before)
	}
	replay(g, second, 2)
}

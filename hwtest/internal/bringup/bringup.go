// Package bringup has the cases of the driver and of opening and closing a device.
package bringup

import (
	"context"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kmd"
)

// Cases are the cases of layer bringup.
func Cases() (cs rig.Table) {
	cs.Add("all cores report", "after opening every worker waits in its idle loop", allCoresReport)
	cs.Add("core information", "every worker has its own coordinate in its core information", coreInformation)
	cs.Add("open close open", "a closed device can be opened again and works", openCloseOpen)
	cs.Add("closing quiets the chip", "after closing all processors are held in reset", closingQuiets)
	cs.Add("cancelled open", "an open whose context is over fails and leaves the device free", cancelledOpen)
	cs.Add("use after close", "everything of a closed device says that it is closed", useAfterClose)
	return cs
}

func allCoresReport(t *rig.T) {
	t = t.Queues(dispatch.Options{})
	for c := range t.Dispatch.Grid().Cores() {
		if v := t.Peek(c, t.L1.Go, 4); v[3] != 0 {
			t.Errorf("core %v: go message % x, want the signal DONE", c, v)
		}
		t.Waypoint(c, chip.BRISC, "IDLE")
		for p := range uint32(chip.NumProcessors) {
			if rig.Word(t.Peek(c, t.L1.CoreState+p*t.L1.CoreStateSize, 4)) == 0 {
				t.Errorf("core %v: %v hasn't started", c, chip.Processor(p))
			}
		}
	}
}

func coreInformation(t *rig.T) {
	t = t.Queues(dispatch.Options{})
	for c := range t.Chip.Workers() {
		b := t.Peek(c, t.L1.CoreInfo, 8)
		if rig.Word(b) != abi.CoreInfoMagic || int(b[4]) != c.X || int(b[5]) != c.Y {
			t.Errorf("core %v has % x", c, b)
		}
	}
}

func openCloseOpen(t *rig.T) {
	for i := range 3 {
		t.Sub("round", func(t *rig.T) {
			t = t.Full()
			b := t.DRAMBuffer(64*t.Dev.DRAMBanks(), 64)
			want := t.Fill(b, i)
			t.Holds(b, want, "read back")
		})
	}
}

func closingQuiets(t *rig.T) {
	target := t.Device.Open()
	kd, err := kmd.Open(t.Ctx, target)
	t.OK(err)
	defer func() { t.OK(kd.Close()) }()
	d, err := t.Open(t.Ctx, target)
	t.OK(err)
	t.UseDriver(kd)
	rig.Equal(t, t.Load32(t.Virtual(chip.Core{}), uint64(t.Params.SoftReset))&t.Params.ResetAll, 0, "reset bits of an open device")
	t.OK(d.Close(t.Context()))
	resetRegisters(t)
}

func cancelledOpen(t *rig.T) {
	ctx, cancel := context.WithCancel(t.Ctx)
	cancel()
	d, err := t.Open(ctx, t.Device.Open())
	if err == nil {
		t.OK(d.Close(ctx))
		t.Skip("the device opens without waiting for anything")
	}
	t.Fails("the call", err, context.Canceled)
	t.Full()
}

func useAfterClose(t *rig.T) {
	u := t.Unclosed(t.Device.Open())
	d := u.Dev
	b := u.DRAMBuffer(64, 64)
	x := u.Load(u.StoreProgram("store", u.Grid(), b, 1))
	tr := u.Capture("t", x)
	t.OK(d.Close(t.Context()))
	q := d.Queue(0)
	data := make([]byte, 64)
	for name, err := range map[string]error{
		"write":              q.Write(t.Ctx, b, 0, data),
		"read":               q.Read(t.Ctx, b, 0, data),
		"wait for queue":     q.Wait(t.Ctx),
		"run":                q.Run(t.Ctx, x),
		"load":               rig.Error(d.Load(t.Ctx, &reprise.Program{})),
		"new buffer":         rig.Error(d.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64})),
		"replay trace":       tr.Replay(t.Ctx),
		"release trace":      tr.Release(t.Ctx),
		"release executable": x.Release(t.Ctx),
		"capture": rig.Error(q.Capture(t.Ctx, "t", func(context.Context, *reprise.Recorder) error {
			t.Error("capture on a closed device calls its function")
			return nil
		})),
	} {
		t.Fails(name, err, reprise.ErrClosed)
		t.Says(err, "reprise: "+name, "the device is closed")
	}
	if b.Name() != "test" || x.Name() != "store" || tr.Name() != "t" || len(tr.Parts()[0].Extents) == 0 {
		t.Error("what is known of closed things is lost")
	}
}

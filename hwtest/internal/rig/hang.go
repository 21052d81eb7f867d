package rig

import (
	"context"
	"errors"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kernels"
)

// hangTimeout is short, since the case waits for it, and long enough for a slow device to show
// progress. How slow the vendor's simulator is depends on the machine and on what else runs there:
// what it takes to open the device tells. So it is with a card, which may be a virtual one in a
// machine that is emulated.
func (t *T) hangTimeout() time.Duration {
	t.Helper()
	least, times := 2*time.Second, time.Duration(20)
	switch t.Device.Kind {
	case target.Emulator:
		return 400 * time.Millisecond * slowdown
	case target.Silicon:
		least, times = 400*time.Millisecond, 2
	}
	t.leave()
	start := time.Now()
	kd, d, err := t.openQueues(dispatch.Options{HangTimeout: t.Patience()})
	t.OK(err)
	t.OK(errors.Join(d.Close(t.Context()), kd.Close()))
	return min(max(least, times*time.Since(start)), t.Patience())
}

// Short opens the device for a case that makes it hang: closing it may fail.
func (t *T) Short() *T {
	t.Helper()
	return t.Opened(t.hangTimeout())
}

// leave closes the device that cases of the layer share, where it is the card that the case is
// about to open.
func (t *T) leave() {
	t.Helper()
	if t.Device.One() {
		t.OK(t.Shared.Close(t.Context()))
	}
}

// Opened opens the device with a limit for hangs; closing it may fail.
func (t *T) Opened(hang time.Duration) *T {
	t.Helper()
	t.leave()
	d, err := t.Open(t.Ctx, t.Device.Open(), reprise.WithHangTimeout(hang))
	t.OK(err)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	u := *t
	u.UseDevice(d)
	return &u
}

// ShortQueues is Short for the command queues alone.
func (t *T) ShortQueues() *T {
	t.Helper()
	hang := t.hangTimeout()
	kd, d, err := t.openQueues(dispatch.Options{HangTimeout: hang})
	t.OK(err)
	t.Cleanup(func() {
		_ = d.Close(context.WithoutCancel(t.Context()))
		_ = kd.Close()
	})
	u := *t
	u.useQueues(kd, d)
	return &u
}

// Hung is the report of a hang, which an error has to be.
func (t *T) Hung(err error) *dispatch.HangError {
	t.Helper()
	var hang *dispatch.HangError
	if !errors.As(err, &hang) {
		t.Fatalf("error %v, want a *HangError", err)
	}
	return hang
}

// WorksAgain opens the device anew and uses it.
func (t *T) WorksAgain() {
	t.Helper()
	u := t.Full(t.Device.Open())
	f := u.Follow()
	x := u.Load(u.MixProgram("again", u.Grid(), f.Buffer, 4, 0))
	u.RunAndWait(x)
	f.Run(4, u.Grid())
	f.Check("after the next open")
}

// Spin is a program that waits on one core until the first word of a buffer, which is cleared, has
// a value.
func (t *T) Spin(b *reprise.Buffer, p chip.Processor, on chip.Core) *reprise.Program {
	t.Helper()
	t.OK(t.Queue.Write(t.Ctx, b, 0, make([]byte, b.Size())))
	return &reprise.Program{Name: "spin", Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Name: "spin", Image: t.Kernel(kernels.Spin), Processor: p, Cores: []chip.Range{on.Range()},
		Args: Args(b.Addr(), 0x12345678),
	}}}
}

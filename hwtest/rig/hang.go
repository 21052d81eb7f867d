package rig

import (
	"context"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kernels"
)

// hangTimeout is short, and long enough for a slow device, as the time of an opening tells.
func (t *T) hangTimeout() time.Duration {
	least, times := 2*time.Second, time.Duration(20)
	switch t.Device.Kind {
	case target.Emulator:
		least, times = 400*time.Millisecond*slowdown, 15
	case target.Silicon:
		least, times = 400*time.Millisecond, 2
	}
	t.leave()
	start := time.Now()
	if t.Device.Kind == target.Emulator {
		t.OK(t.Unclosed(t.Device.Open(), reprise.WithHangTimeout(t.Patience())).Dev.Close(t.Context()))
	} else {
		_, end := t.queues(dispatch.Options{HangTimeout: t.Patience()})
		t.OK(end())
	}
	return min(max(least, times*time.Since(start)), t.Patience())
}

// Short opens the device for a case that makes it hang.
func (t *T) Short() *T {
	return t.Opened(t.hangTimeout())
}

func (t *T) leave() {
	if t.Device.One() {
		t.OK(t.Shared.Close(t.Context()))
	}
}

// Opened opens the device with a limit for hangs; closing it may fail.
func (t *T) Opened(hang time.Duration) *T {
	t.leave()
	u := t.Unclosed(t.Device.Open(), reprise.WithHangTimeout(hang))
	t.Cleanup(func() { _ = u.Dev.Close(context.Background()) })
	return u
}

// ShortQueues is Short for the command queues alone.
func (t *T) ShortQueues() *T {
	u, end := t.queues(dispatch.Options{HangTimeout: t.hangTimeout()})
	t.Cleanup(func() { _ = end() })
	return u
}

// Hung is the report of a hang, which an error has to be.
func (t *T) Hung(err error) *dispatch.HangError {
	return As[*dispatch.HangError](t, err)
}

// Hangs runs a program that doesn't end, and returns the report of the hang.
func (t *T) Hangs(p *reprise.Program) *dispatch.HangError {
	t.Start(t.Load(p))
	return t.Hung(t.Queue.Wait(t.Ctx))
}

// WorksAgain opens the device anew and uses it.
func (t *T) WorksAgain() { t.Full().Works("after the next open") }

// Works uses the device.
func (t *T) Works(when string) {
	f := t.Follow()
	f.Start(f.Load("again", 4))
	f.Check("%s", when)
}

// Spin is a program that waits until EndSpin writes to a buffer of words for each worker.
func (t *T) Spin(b *reprise.Buffer, p chip.Processor, on chip.Range) *reprise.Program {
	t.Clear(b)
	return OneKernel(reprise.Kernel{
		Name: "spin", Image: t.Kernel(kernels.Spin), Processor: p, Cores: []chip.Range{on}, Args: Args(b.Addr(), spinEnd),
	}, b)
}

const spinEnd = 0x12345678

// EndSpin ends the program of Spin.
func (t *T) EndSpin(b *reprise.Buffer) {
	t.Write(b, Repeated(b.Size(), spinEnd))
}

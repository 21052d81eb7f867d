package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
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

// Recover makes a device usable that hangs or was lost.
func (t *T) Recover() { t.OK(t.Dev.Recover(t.Ctx)) }

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

// Hangs returns the reports of hangs among the arguments of Error or Fatal.
func Hangs(args []any) (all []*dispatch.HangError) {
	for _, a := range args {
		var h *dispatch.HangError
		if err, ok := a.(error); ok && errors.As(err, &h) && h != nil {
			all = append(all, h)
		}
	}
	return all
}

// keep writes a file of the case. A star in the name becomes a number.
func keep(t TB, name string, write func(io.Writer) error) {
	f, err := os.CreateTemp(t.ArtifactDir(), name)
	if err == nil {
		if err = errors.Join(write(f), f.Close()); err != nil {
			_ = os.Remove(f.Name())
		}
	}
	if err != nil && !errors.Is(err, reprise.ErrReleased) {
		t.Logf("file %s of the case: %v", name, err)
	}
}

// KeepDump writes the dump of a hang as a file of the case.
func KeepDump(t TB, h *dispatch.HangError) {
	keep(t, "hang-*.dump", func(w io.Writer) error { return Error(h.Dump.WriteTo(w)) })
}

type waiter interface{ Wait(context.Context) error }

type device[Q waiter] interface {
	Close(context.Context) error
	Queues() int
	Queue(int) Q
}

// opened lists what a case has open, for its runner in case the case fails or gets stuck.
type opened struct {
	mu     sync.Mutex
	close  []func(context.Context) error
	queues []waiter
	traces []*reprise.Trace
}

func (o *opened) change(add func()) {
	if o == nil { // no runner waits for a victim
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	add()
}

func note[Q waiter](o *opened, d device[Q]) {
	o.change(func() {
		o.close = append(o.close, d.Close)
		for i := range d.Queues() {
			o.queues = append(o.queues, d.Queue(i))
		}
	})
}

// report keeps the traces of a failed case. At its limit the case fails with the state of all
// queues that aren't idle.
func (o *opened) report(t TB, d *target.Device, limit error) (devices []func(context.Context) error) {
	var queues []waiter
	var traces []*reprise.Trace
	o.change(func() {
		devices, queues, traces = o.close, o.queues, o.traces
		o.close, o.queues, o.traces = nil, nil, nil
	})
	ctx, cancel := context.WithTimeoutCause(context.Background(), Patience(d)/40, limit)
	defer cancel()
	if limit == nil {
		queues = nil
	}
	for _, q := range queues {
		if err := q.Wait(ctx); err != nil && !errors.Is(err, reprise.ErrClosed) {
			t.Error(err)
		}
	}
	for _, tr := range traces {
		keep(t, "*.trace", func(w io.Writer) error { return tr.Save(context.WithoutCancel(ctx), w) })
	}
	return devices
}

// Abandon reports a case that ignores the end of its context, and closes the case's devices, so
// that its waits end.
func (b *Shared) Abandon(t TB, limit error) {
	o := b.running.Load()
	if o == nil {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(limit)
	for _, c := range o.report(t, b.Device, limit) {
		if err := c(ctx); err != nil {
			t.Logf("close under a stuck case: %v", err)
		}
	}
}

// runner matches functions that are no part of a case.
var runner = regexp.MustCompile(`/hwtest/rig\.|/hwtest\.(\(\*|testT)|^runtime\.`)

// Place names the innermost line outside of this package, and its callers in the case, before a
// text.
func Place() string {
	pcs := make([]uintptr, 50)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var at []string
	for f, more := frames.Next(); more && f.Function != "testing.tRunner"; f, more = frames.Next() {
		if !runner.MatchString(f.Function) {
			at = append(at, fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line))
		}
	}
	if len(at) == 0 {
		return ""
	}
	return strings.Join(at, ", from ") + ": "
}

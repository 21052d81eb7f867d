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

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
)

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

// Keep writes a file of the case. A star in the name becomes a number.
func Keep(t TB, name string, write func(io.Writer) error) {
	f, err := os.CreateTemp(t.ArtifactDir(), name)
	if err == nil {
		err = errors.Join(write(f), f.Close())
	}
	if err != nil {
		t.Logf("file %s of the case: %v", name, err)
	}
}

type waiter interface{ Wait(context.Context) error }

type device[Q waiter] interface {
	Close(context.Context) error
	Queues() int
	Queue(int) Q
}

// opened lists the devices of a case for its runner, in case it gets stuck.
type opened struct {
	mu     sync.Mutex
	close  []func(context.Context) error
	queues []waiter
}

func note[Q waiter](o *opened, d device[Q]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.close = append(o.close, d.Close)
	for i := range d.Queues() {
		o.queues = append(o.queues, d.Queue(i))
	}
}

func (o *opened) take() (devices []func(context.Context) error, queues []waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	devices, queues, o.close, o.queues = o.close, o.queues, nil, nil
	return devices, queues
}

// Report fails a case that exceeds its limit, with the state of all queues that aren't idle.
func (b *Shared) Report(t TB, limit error) (devices []func(context.Context) error) {
	devices, queues := b.take()
	ctx, cancel := context.WithTimeoutCause(context.Background(), Patience(b.Device)/40, limit)
	defer cancel()
	for _, q := range queues {
		if err := q.Wait(ctx); err != nil && !errors.Is(err, reprise.ErrClosed) {
			t.Error(err)
		}
	}
	return devices
}

// Abandon is Report for a case that ignores the end of its context. It closes the case's devices,
// so that its waits end.
func (b *Shared) Abandon(t TB, limit error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(limit)
	for _, c := range b.Report(t, limit) {
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

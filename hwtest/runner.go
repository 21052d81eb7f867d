package hwtest

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

type tb = rig.TB

type trial struct {
	ctx    context.Context
	cancel context.CancelFunc
	whole  context.Context // of the whole run

	mu       sync.Mutex
	failed   bool
	found    bool // failed before the run had ended
	skipped  string
	log      []string
	helpers  map[uintptr]bool // program counters: frames cost memory, and cases count allocations
	cleanups []func()
}

func newTrial(ctx context.Context) *trial {
	t := &trial{whole: ctx, helpers: map[uintptr]bool{}}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

// start runs a function and its cleanups, and then closes the channel.
func (t *trial) start(fn func(tb)) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.guard(func() { fn(t) })
		t.cancel()
		for f := t.lastCleanup(); f != nil; f = t.lastCleanup() {
			t.guard(f)
		}
	}()
	return done
}

// guard runs a function that Fatal and Skip may end, and a panic fails.
func (t *trial) guard(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				t.fail(fmt.Sprintf("panic: %v\n%s", v, debug.Stack()))
			}
		}()
		fn()
	}()
	<-done
}

func (t *trial) lastCleanup() func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.cleanups)
	if n == 0 {
		return nil
	}
	f := t.cleanups[n-1]
	t.cleanups = t.cleanups[:n-1]
	return f
}

func (t *trial) overdue(after time.Duration) {
	stacks := make([]byte, 256<<10)
	stacks = stacks[:runtime.Stack(stacks, true)]
	t.fail(fmt.Sprintf("the case didn't end within %v, nor with its context; all goroutines:\n%s", after.Round(time.Second), stacks))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found = true
}

func (t *trial) interrupted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed && !t.found
}

func (t *trial) outcome() (o Outcome, reason string, log []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.failed:
		return Fail, "", slices.Clone(t.log)
	case t.skipped != "":
		return Skip, t.skipped, nil
	}
	return Pass, "", nil
}

func (t *trial) fail(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setFailedLocked()
	t.log = append(t.log, line)
}

func (t *trial) setFailedLocked() {
	t.failed = true
	t.found = t.found || t.whole.Err() == nil
}

func (t *trial) say(line string, failed bool) {
	pcs := make([]uintptr, 50)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)]) // past Callers, say and the method of the interface
	t.mu.Lock()
	defer t.mu.Unlock()
	helpers := map[string]bool{}
	for pc := range t.helpers {
		f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
		helpers[f.Function] = true
	}
	for {
		f, more := frames.Next()
		if !helpers[f.Function] || !more {
			line = fmt.Sprintf("%s:%d: %s", filepath.Base(f.File), f.Line, line)
			break
		}
	}
	t.log = append(t.log, line)
	if failed {
		t.setFailedLocked()
	}
}

func line(args []any) string { return strings.TrimSuffix(fmt.Sprintln(args...), "\n") }

func (t *trial) Context() context.Context { return t.ctx }

func (t *trial) Helper() {
	var pcs [1]uintptr
	if runtime.Callers(2, pcs[:]) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.helpers[pcs[0]] = true
}

func (t *trial) Log(args ...any)                   { t.say(line(args), false) }
func (t *trial) Logf(format string, args ...any)   { t.say(fmt.Sprintf(format, args...), false) }
func (t *trial) Error(args ...any)                 { t.say(line(args), true) }
func (t *trial) Errorf(format string, args ...any) { t.say(fmt.Sprintf(format, args...), true) }

func (t *trial) Fatal(args ...any) {
	t.say(line(args), true)
	runtime.Goexit()
}

func (t *trial) Fatalf(format string, args ...any) {
	t.say(fmt.Sprintf(format, args...), true)
	runtime.Goexit()
}

func (t *trial) Skip(args ...any) { t.skip(line(args)) }

func (t *trial) Skipf(format string, args ...any) { t.skip(fmt.Sprintf(format, args...)) }

func (t *trial) skip(why string) {
	t.mu.Lock()
	t.skipped = why
	t.mu.Unlock()
	runtime.Goexit()
}

func (t *trial) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *trial) Skipped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.skipped != ""
}

func (t *trial) Cleanup(fn func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, fn)
}

// Parallel does nothing: cases run in the report's order.
func (t *trial) Parallel() {}

func (t *trial) Run(name string, fn func(tb)) bool {
	s := newTrial(t.ctx)
	s.whole = t.whole // in a cleanup t.ctx is over
	<-s.start(fn)
	o, _, log := s.outcome()
	if o != Fail {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed, t.found = true, t.found || s.found
	for _, l := range log {
		t.log = append(t.log, name+": "+l)
	}
	return false
}

package hwtest

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
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
	reason   string // first failure
	log      []string
	folder   string    // of the case's files; "" for a temporary one
	scratch  string    // the temporary one
	hangs    *sync.Map // reported *dispatch.HangError
	cleanups []func()
}

func newTrial(ctx context.Context) *trial {
	t := &trial{whole: ctx, hangs: new(sync.Map)}
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

// overdue fails the case and closes its devices, so that it may end after all.
func (t *trial) overdue(a *attempt, done <-chan struct{}, after time.Duration) (ended bool) {
	stacks := make([]byte, 256<<10)
	stacks = stacks[:runtime.Stack(stacks, true)]
	why := fmt.Sprintf("the case didn't end within %v, nor with its context", after.Round(time.Millisecond))
	t.fail(why + "; all goroutines:\n" + string(stacks))
	t.mu.Lock()
	t.found = true
	t.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		a.abandon(t, fmt.Errorf("%s: %w", why, reprise.ErrTimeout))
	}()
	late := time.After(a.grace)
	for _, c := range []<-chan struct{}{closed, done} {
		select {
		case <-c:
		case <-late:
			return false
		}
	}
	return true
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
		return Fail, t.reason, slices.Clone(t.log)
	case t.skipped != "":
		return Skip, t.skipped, nil
	}
	return Pass, "", nil
}

func (t *trial) fail(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setFailedLocked(line)
	t.log = append(t.log, line)
}

func (t *trial) setFailedLocked(why string) {
	t.failed = true
	if t.reason == "" {
		t.reason, _, _ = strings.Cut(why, "\n")
	}
	t.found = t.found || t.whole.Err() == nil
}

func (t *trial) say(line string, args []any, failed bool) {
	for _, h := range rig.Hangs(args) {
		t.hang(h)
	}
	line = rig.Place() + line
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, line)
	if failed {
		t.setFailedLocked(line)
	}
}

// hang reports a hang once, and keeps its dump as a file for "reprise inspect".
func (t *trial) hang(h *dispatch.HangError) {
	if _, old := t.hangs.LoadOrStore(h, true); old {
		return
	}
	detail := h.Detail()
	if t.folder != "" && h.Dump != nil {
		rig.KeepDump(t, h)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, detail)
}

func line(args []any) string { return strings.TrimSuffix(fmt.Sprintln(args...), "\n") }

func (t *trial) Context() context.Context { return t.ctx }

// Helper does nothing: lines of the log name the callers too.
func (t *trial) Helper() {}

func (t *trial) Log(args ...any)                   { t.say(line(args), args, false) }
func (t *trial) Logf(format string, args ...any)   { t.say(fmt.Sprintf(format, args...), args, false) }
func (t *trial) Error(args ...any)                 { t.say(line(args), args, true) }
func (t *trial) Errorf(format string, args ...any) { t.say(fmt.Sprintf(format, args...), args, true) }

func (t *trial) Fatal(args ...any) {
	t.Error(args...)
	runtime.Goexit()
}

func (t *trial) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
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

// ArtifactDir is the folder of the case's files, or a temporary one.
func (t *trial) ArtifactDir() string {
	var err error
	if t.folder != "" {
		err = os.MkdirAll(t.folder, 0o755)
	} else if t.scratch == "" {
		if t.scratch, err = os.MkdirTemp("", "hwtest"); err == nil {
			t.Cleanup(func() { _ = os.RemoveAll(t.scratch) })
		}
	}
	if err != nil {
		t.Errorf("folder of the case's files: %v", err)
	}
	return cmp.Or(t.folder, t.scratch)
}

// files are those of the folder that the case has written.
func (t *trial) files(since time.Time) (names []string) {
	if t.folder == "" {
		return nil
	}
	_ = filepath.WalkDir(t.folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		if f, err := e.Info(); err == nil && !f.ModTime().Before(since.Truncate(time.Second)) {
			names = append(names, name)
		}
		return nil
	})
	return names
}

// fileName makes a name of a folder from any text.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || unicode.IsLetter(r) {
			return r
		}
		return '_'
	}, s)
}

// Parallel does nothing: cases run in the report's order.
func (t *trial) Parallel() {}

func (t *trial) Run(name string, fn func(tb)) bool {
	s := newTrial(t.ctx)
	s.whole, s.hangs = t.whole, t.hangs // in a cleanup t.ctx is over
	if t.folder != "" {
		s.folder = filepath.Join(t.folder, fileName(name))
	}
	<-s.start(fn)
	o, why, log := s.outcome()
	if o != Fail {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed, t.found, t.reason = true, t.found || s.found, cmp.Or(t.reason, name+": "+why)
	for _, l := range log {
		t.log = append(t.log, name+": "+l)
	}
	return false
}

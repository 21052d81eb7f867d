package debug

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
)

// CheckError names a program that computes something else in a replay than by itself.
type CheckError struct {
	Trace  string
	Step   int         // -1 if none did when repeated
	Name   string      // of its program, or what differs as a whole
	Loops  []Iteration // outermost first
	Buffer string
	Offset int
	Differ int  // in bytes
	Want   byte // by the program itself
	Got    byte // in a replay
}

func (e *CheckError) Error() string {
	where := fmt.Sprintf("step %d, program %q%s, differs in a replay", e.Step, e.Name, inside(e.Loops))
	if e.Step < 0 && e.Name != "" {
		where = fmt.Sprintf("%q differs in a replay as a whole, but not when its programs follow each other in a straight line", e.Name)
	} else if e.Step < 0 {
		where = "a replay differs, but not when it is repeated, so programs keep something outside of their buffers"
	}
	return fmt.Sprintf("debug: check trace %q: %s: buffer %q has %d other bytes, from %#x on 0x%02x instead of 0x%02x",
		e.Trace, where, e.Buffer, e.Differ, e.Offset, e.Got, e.Want)
}

// Check compares a replay with its programs. It runs them one by one, restores all buffers and
// replays the trace. If the buffers that programs declare then differ, it finds the first program
// after which they do, by replaying beginnings of the trace, and returns a *CheckError. A
// *VerifyError means that the commands in DRAM have changed. Programs whose results depend on more
// than their buffers, arguments and circular buffers can't be checked. Check also finds missing
// edges between queues.
//
// With control flow, the programs one by one decide which way the trace goes, and its beginnings
// are replayed as that straight line. Afterwards the buffers hold what they held before, even if
// ctx has ended. Check keeps the contents of the buffers several times in host memory, and holds
// the queues as Step does.
func (d *Debugger) Check(ctx context.Context) error {
	return d.exclusive(ctx, "check", func(r *run) error {
		c := &check{run: r, bufs: r.s.Buffers()}
		return c.check(ctx)
	})
}

type check struct {
	*run
	bufs   []Buffer
	before [][]byte
}

func (c *check) check(ctx context.Context) (err error) {
	if c.before, err = c.contents(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.restore(context.WithoutCancel(ctx))) }()
	if c.hasControl() {
		return c.checkFlow(ctx)
	}
	n := len(c.runs)
	diff, err := c.compare(ctx, n, func() error { return c.replay(ctx) })
	if diff == nil || err != nil {
		return err
	}
	if err := c.search(ctx, n, func(k int) (*CheckError, error) {
		p, err := c.place(ctx, 0, k)
		if err != nil {
			return nil, err
		}
		d, err := c.compare(ctx, k, func() error { return p.Run(ctx) })
		return d, errors.Join(err, p.Release(ctx))
	}); err != nil {
		return err
	}
	diff.Step, diff.Name = -1, ""
	return diff
}

func (c *check) search(ctx context.Context, n int, beginning func(programs int) (*CheckError, error)) error {
	var first *CheckError
	probe := func(k int) (bool, error) {
		d, err := beginning(k)
		if d != nil {
			first = d
		}
		return d == nil, err
	}
	if n > 0 {
		_, err := bisect(n, probe)
		if err == nil && first == nil {
			_, err = probe(n)
		}
		if err != nil {
			return err
		}
	}
	if first != nil {
		return first
	}
	for i := range c.all {
		if err := c.s.Verify(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) compare(ctx context.Context, n int, replay func() error) (*CheckError, error) {
	diff, err := c.compareWays(ctx, func() error { return c.oneByOne(ctx, n) }, func() error {
		if err := replay(); err != nil {
			return c.stepError(0, n, err)
		}
		return nil
	})
	if diff != nil {
		diff.Step, diff.Name = n-1, c.step(c.runs[n-1]).Name
	}
	return diff, err
}

func (c *check) compareWays(ctx context.Context, alone, replay func() error) (*CheckError, error) {
	var after [2][][]byte
	for i, run := range []func() error{alone, replay} {
		err := c.restore(ctx)
		if err == nil {
			err = run()
		}
		if err == nil {
			after[i], err = c.contents(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	for i, b := range c.bufs {
		if want, got := after[0][i], after[1][i]; !bytes.Equal(want, got) {
			e := &CheckError{Trace: c.t.Name(), Buffer: b.Name()}
			e.Offset, e.Differ = differ(want, got)
			e.Want, e.Got = want[e.Offset], got[e.Offset]
			return e, nil
		}
	}
	return nil, nil
}

// differ returns the first difference of two slices of one length, -1 without any, and the number
// of different bytes.
func differ(want, got []byte) (first, bytes int) {
	first = -1
	for i := range want {
		if want[i] == got[i] {
			continue
		}
		if bytes++; first < 0 {
			first = i
		}
	}
	return first, bytes
}

func (c *check) oneByOne(ctx context.Context, n int) error {
	if c.parts[0].Loaded {
		return c.stepThrough(ctx, n, nil)
	}
	for i, at := range c.runs[:n] {
		err := c.s.Run(ctx, at.Part, at.Step)
		if err == nil {
			err = c.s.Wait(ctx, at.Part)
		}
		if err != nil {
			return c.stepError(i, i+1, err)
		}
	}
	return nil
}

func (c *check) contents(ctx context.Context) ([][]byte, error) {
	out := make([][]byte, len(c.bufs))
	for i, b := range c.bufs {
		out[i] = make([]byte, b.Size())
		if err := b.Read(ctx, out[i]); err != nil {
			return nil, fmt.Errorf("read buffer %q: %w", b.Name(), err)
		}
	}
	return out, nil
}

// restore also waits: the programs may be another queue's.
func (c *check) restore(ctx context.Context) error {
	for i, b := range c.bufs {
		if err := b.Write(ctx, c.before[i]); err != nil {
			return fmt.Errorf("write buffer %q: %w", b.Name(), err)
		}
	}
	return c.s.Wait(ctx, 0)
}

// Bisect finds the first program with which a replay goes wrong, by replaying beginnings of the
// trace. Before each one it calls prepare to write what the programs read, whose data must have
// arrived when it returns, and afterwards good to judge the result. A beginning that hangs is not
// good: the device is recovered, which loses its queues and buffers, and the search goes on. step
// is the index of the program, or -1 if the whole trace is good. Bisect holds the queues as Step
// does. For traces with loops see [Debugger.BisectRun].
func (d *Debugger) Bisect(ctx context.Context, prepare func(programs int) error,
	good func(programs int) (bool, error)) (step int, err error) {
	at, err := d.BisectRun(ctx, prepare, good)
	if at == nil {
		return -1, err
	}
	return at.Step, err
}

func (r *run) bisect(ctx context.Context, prepare func(int) error, good func(int) (bool, error)) (step int, err error) {
	probe := func(n int) (bool, error) {
		return r.probePlaced(ctx, n, prepare, good, func() (Placed, error) { return r.place(ctx, 0, n) })
	}
	n := len(r.runs)
	if ok, err := probe(n); ok || err != nil {
		return -1, err
	}
	return bisect(n, probe)
}

// bisect takes the last beginning to be bad.
func bisect(n int, good func(programs int) (bool, error)) (int, error) {
	var failed error
	i := sort.Search(n-1, func(i int) bool {
		if failed != nil {
			return true
		}
		ok, err := good(i + 1)
		failed = err
		return !ok
	})
	return i, failed
}

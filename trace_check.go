package reprise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/reprise-tt/reprise/dispatch"
)

// CheckError says which program of a trace computes something else in a replay than by itself.
type CheckError struct {
	Trace  string
	Step   int    // the first that differs; -1 if none did when it was looked for
	Name   string // of its program
	Buffer string // the first buffer that differs behind it
	Offset int    // of the first byte there that differs
	Differ int    // bytes of that buffer that differ
	Want   byte   // what the program writes by itself
	Got    byte   // what it writes in a replay
}

// Error implements error.
func (e *CheckError) Error() string {
	where := fmt.Sprintf("step %d, program %q, differs in a replay", e.Step, e.Name)
	if e.Step < 0 {
		where = "a replay differs, but not when it is repeated, so programs keep something outside of their buffers"
	}
	return fmt.Sprintf("reprise: check trace %q: %s: buffer %q has %d other bytes, from %#x on 0x%02x instead of 0x%02x",
		e.Trace, where, e.Buffer, e.Differ, e.Offset, e.Got, e.Want)
}

// Check compares a replay with its programs: it runs them one by one, each waited for, puts the contents of all buffers
// back and replays the trace. If the buffers differ then, it finds the first program behind which they do, by
// replaying beginnings of the trace, and returns a *CheckError. (A *VerifyError means that the beginnings do what they
// should and what lies in DRAM isn't what was recorded.) Programs whose results aren't determined by their buffers,
// arguments and circular buffers can't be checked.
//
// All buffers that programs declare are compared, since none says which it writes. The programs of a captured trace are run
// as Queue.Run would; of a loaded one there are only the recorded commands, which are sent as Step does. Afterwards the
// buffers hold what they held before, also if ctx has ended: putting it back waits for the program that runs then. Check
// keeps their contents several times in host memory, and the queue as Step does.
func (t *Trace) Check(ctx context.Context) error { return t.takeApart().check(ctx) }

func (a *apart) check(ctx context.Context) error {
	return a.alone(ctx, "check", func() error {
		c := &check{apart: a, bufs: buffersOf(a.parts, nil)}
		return c.run(ctx)
	})
}

type check struct {
	*apart
	bufs   []*Buffer
	before [][]byte
}

func (c *check) run(ctx context.Context) (err error) {
	if c.before, err = c.contents(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.restore(context.WithoutCancel(ctx))) }()
	n := len(c.runs)
	diff, err := c.differ(ctx, n, func() error {
		if err := c.whole(ctx); err != nil {
			return err
		}
		return c.finish(ctx)
	})
	if diff == nil || err != nil {
		return err
	}
	var at *CheckError
	probe := func(k int) (bool, error) {
		p, err := c.piece(ctx, 0, k)
		if err != nil {
			return false, err
		}
		d, err := c.differ(ctx, k, func() error { return p.run(ctx) })
		if d != nil {
			at = d
		}
		return d == nil, errors.Join(err, p.free(ctx))
	}
	if _, err := bisect(n, probe); err != nil {
		return err
	}
	if at == nil { // no shorter one differs: the last program does, or what lies in DRAM
		if _, err := probe(n); err != nil {
			return err
		}
	}
	if at != nil {
		return at
	}
	for i, t := range c.parts {
		if err := t.compareCommands(ctx, "check", c.cmds[i]); err != nil {
			return err
		}
	}
	diff.Step, diff.Name = -1, ""
	return diff
}

// differ runs the first n programs both ways and compares.
func (c *check) differ(ctx context.Context, n int, replay func() error) (*CheckError, error) {
	if err := c.restore(ctx); err != nil {
		return nil, err
	}
	if err := c.eager(ctx, n); err != nil {
		return nil, err
	}
	want, err := c.contents(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.restore(ctx); err != nil {
		return nil, err
	}
	if err := replay(); err != nil {
		return nil, c.stepError(0, n, err)
	}
	got, err := c.contents(ctx)
	if err != nil {
		return nil, err
	}
	_, last := c.at(n - 1)
	for i, b := range c.bufs {
		if bytes.Equal(want[i], got[i]) {
			continue
		}
		e := &CheckError{Trace: c.name, Step: n - 1, Name: last.Name, Buffer: b.name, Offset: -1}
		for k := range want[i] {
			if want[i][k] == got[i][k] {
				continue
			}
			if e.Differ++; e.Offset < 0 {
				e.Offset, e.Want, e.Got = k, want[i][k], got[i][k]
			}
		}
		return e, nil
	}
	return nil, nil
}

// eager runs the first n programs one by one.
func (c *check) eager(ctx context.Context, n int) error {
	if c.parts[0].loaded {
		return c.step(ctx, n, nil)
	}
	for i, at := range c.runs[:n] {
		t, s := c.apart.at(i)
		err := c.rs[at.Part].RunAgain(ctx, t.programs[s.Program].image, c.cmds[at.Part][s.Offset:s.Offset+s.Size], dispatch.Variant(s.Variant))
		if err == nil {
			err = t.q.await(ctx)
		}
		if err != nil {
			return c.stepError(i, i+1, err)
		}
	}
	return nil
}

// contents reads all buffers.
func (c *check) contents(ctx context.Context) ([][]byte, error) {
	out := make([][]byte, len(c.bufs))
	for i, b := range c.bufs {
		out[i] = make([]byte, b.Size())
		if err := b.read(ctx, c.parts[0].q.q, 0, out[i]); err != nil {
			return nil, fmt.Errorf("read buffer %q: %w", b.name, err)
		}
	}
	return out, nil
}

// restore writes back what the buffers held at first, and waits for it: the programs may be another queue's.
func (c *check) restore(ctx context.Context) error {
	q := c.parts[0].q
	for i, b := range c.bufs {
		if err := b.write(ctx, q.q, 0, c.before[i]); err != nil {
			return fmt.Errorf("write buffer %q: %w", b.name, err)
		}
	}
	return q.await(ctx)
}

// Bisect finds the first program with which a replay goes wrong: it replays beginnings of the trace, of different numbers
// of programs. Before each it calls prepare, which brings what the programs read into place, and behind it good, which
// says whether the result is as it should be. A beginning that hangs is not good; the device is recovered then, which
// loses what is in its queues and buffers, and the search goes on. step is the index of the program, or -1 if the whole
// trace is good. Bisect keeps the queue as Step does.
func (t *Trace) Bisect(ctx context.Context, prepare func(programs int) error, good func(programs int) (bool, error)) (step int, err error) {
	return t.takeApart().bisect(ctx, prepare, good)
}

func (a *apart) bisect(ctx context.Context, prepare func(programs int) error, good func(programs int) (bool, error)) (step int, err error) {
	step = -1
	err = a.alone(ctx, "bisect", func() error {
		probe := func(n int) (ok bool, err error) {
			if prepare != nil {
				if err := prepare(n); err != nil {
					return false, err
				}
			}
			p, err := a.piece(ctx, 0, n)
			if err != nil {
				return false, err
			}
			defer func() { err = errors.Join(err, p.free(ctx)) }()
			err = p.run(ctx)
			var hang *HangError
			if errors.As(err, &hang) {
				return false, a.d.Recover(ctx)
			}
			if err != nil {
				return false, err
			}
			return good(n)
		}
		n := len(a.runs)
		ok, err := probe(n)
		if ok || err != nil {
			return err
		}
		step, err = bisect(n, probe)
		return err
	})
	return step, err
}

// bisect returns the index of the first of n programs with which good is false. The last beginning is known to be bad,
// or is taken for it.
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

package debug

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/reprise-tt/reprise/tracebuf"
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
	var path []ranStep
	alone := func(programs, until int) func() error {
		return func() error {
			f := c.alone(programs, until)
			err := f.follow(ctx)
			path = f.path
			return err
		}
	}
	diff, err := c.compare(ctx, len(c.runs), alone(0, 0), func() error { return c.replay(ctx) })
	if diff == nil || err != nil {
		return err
	}
	full := path
	_, first, err := search(programs(full), func(n int) (*CheckError, error) {
		p, err := c.beginning(ctx, full, n)
		if err != nil {
			return nil, err
		}
		d, err := c.compare(ctx, n, alone(n, 0), func() error { return p.Run(ctx) })
		if d != nil {
			at := nth(full, n-1)
			d.Step, d.Name, d.Loops = at.Step, at.Name, at.Loops
		}
		return d, errors.Join(err, p.Release(ctx))
	})
	if first != nil {
		return cmp.Or(err, error(first))
	}
	for i := 0; i < len(c.all) && err == nil; i++ {
		err = c.s.Verify(ctx, i)
	}
	if err == nil && len(c.parts) == 1 && c.hasControl() {
		ends, steps := c.ends(), c.parts[0].Image.Steps
		var found int
		found, first, err = search(len(ends), func(n int) (*CheckError, error) {
			p, err := c.s.Place(ctx, []Piece{c.wholePiece(0, 0, ends[n-1], 0)})
			if err != nil {
				return nil, err
			}
			d, err := c.compare(ctx, n, alone(0, ends[n-1]), func() error { return p.Run(ctx) })
			return d, errors.Join(err, p.Release(ctx))
		})
		if err == nil && first != nil {
			start := 0
			if found > 0 {
				start = ends[found-1]
			}
			first.Step, first.Name = -1, steps[start].Name
			return first
		}
	}
	if err != nil {
		return err
	}
	diff.Step, diff.Name = -1, ""
	return diff
}

// search finds the first of n beginnings that differs, by its index, and how.
func search(n int, differs func(n int) (*CheckError, error)) (found int, first *CheckError, err error) {
	probe := func(k int) (bool, error) {
		d, err := differs(k)
		if d != nil {
			first = d
		}
		return d == nil, err
	}
	if n > 0 {
		if found, err = bisect(n, probe); err == nil && first == nil {
			_, err = probe(n)
		}
	}
	return found, first, err
}

// compare runs n programs both ways. It doesn't know the difference's step.
func (c *check) compare(ctx context.Context, n int, alone, replay func() error) (*CheckError, error) {
	var after [2][][]byte
	for i, run := range []func() error{alone, replay} {
		err := c.restore(ctx)
		if err == nil {
			err = c.runError(n, run())
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

func (c *check) runError(n int, err error) error {
	var s *StepError
	switch {
	case err == nil || errors.As(err, &s):
		return err
	case c.hasControl():
		return &StepError{Trace: c.t.Name(), First: -1, Last: -1, Name: c.t.Name(), Err: err}
	}
	return c.stepError(0, n, err)
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

func (d *Debugger) ends() []int {
	var out []int
	for pc := 0; pc < len(d.parts[0].Image.Steps); {
		pc = max(pc+1, d.whole(0, pc))
		out = append(out, pc)
	}
	return out
}

// alone runs programs one by one, or those before a step of the first part; 0 stands for all.
func (c *check) alone(programs, until int) *follower {
	f := &follower{run: c.run, program: c.waited(func(ctx context.Context, at tracebuf.At, _ int) error {
		return c.s.Run(ctx, at.Part, at.Step)
	}), plain: true, most: programs, until: until}
	for i := range c.all {
		if c.all[i].Loaded {
			f.program, f.plain = c.waited(c.sendProgram), false
		}
	}
	return f
}

// BisectRun is [Debugger.Bisect] that also returns the iterations of loops. prepare and good count
// each run of a program. With control flow, all programs first run one by one, after prepare(0), to
// find the way of the trace; its beginnings are replayed as that straight line, the whole trace
// with its loops and branches. at is nil if the whole trace is good.
func (d *Debugger) BisectRun(ctx context.Context, prepare func(programs int) error,
	good func(programs int) (bool, error)) (at *Position, err error) {
	if prepare == nil {
		prepare = func(int) error { return nil }
	}
	err = d.exclusive(ctx, "bisect", func(r *run) error {
		f := &follower{run: r, program: r.waited(r.sendProgram)}
		probe := func(n int, replay func() error) (bool, error) {
			if err := prepare(n); err != nil {
				return false, err
			}
			err := replay()
			if r.s.Hangs(err) {
				return false, r.s.Recover(ctx)
			}
			if err != nil {
				return false, err
			}
			return good(n)
		}
		beginning := func(n int) (ok bool, err error) {
			p, err := r.beginning(ctx, f.path, n)
			if err != nil {
				return false, err
			}
			defer func() { err = errors.Join(err, p.Release(ctx)) }()
			return probe(n, func() error { return p.Run(ctx) })
		}
		whole := beginning
		if r.hasControl() {
			if err := prepare(0); err != nil {
				return err
			}
			if err := f.follow(ctx); r.s.Hangs(err) {
				at = &f.at
				return r.s.Recover(ctx)
			} else if err != nil {
				return err
			}
			whole = func(n int) (bool, error) { return probe(n, func() error { return r.replay(ctx) }) }
		} else {
			for i, at := range r.runs {
				f.ran = i
				f.path = append(f.path, ranStep{At: at, Position: f.position(at)})
			}
		}
		n := programs(f.path)
		ok, err := whole(n)
		if ok || err != nil || n == 0 {
			return err
		}
		found, err := bisect(n, beginning)
		if err == nil {
			p := nth(f.path, found)
			at = &p
		}
		return err
	})
	return at, err
}

// ErrNoResults is returned by CheckResults for a trace without results in a file.
var ErrNoResults = errors.New("there are no results in its file to compare with")

// VerifyError says where device memory has changed.
type VerifyError struct {
	Trace  string
	What   string
	Offset int
	Differ int // bytes that differ
	Size   int
	Want   byte
	Got    byte
}

func (e *VerifyError) Error() string {
	return fmt.Sprintf("debug: trace %q: %d of %d B of %s differ in device memory, from byte %#x on: it holds 0x%02x, want 0x%02x",
		e.Trace, e.Differ, e.Size, e.What, e.Offset, e.Got, e.Want)
}

// Verify compares the commands and the kernels of replays in device memory with the host's copy.
// The error is a *VerifyError if they differ.
func (d *Debugger) Verify(ctx context.Context) error {
	return d.t.Inside(ctx, "verify", func(m Memory) error { return Compare(ctx, d.t.Name(), m.Regions()) })
}

// CheckResults waits for the queues and compares the buffers of a loaded trace with the results in
// its file, of a replay on the file's data. The error is a *VerifyError if they differ.
func (d *Debugger) CheckResults(ctx context.Context) error {
	const op = "check results of"
	return d.t.Inside(ctx, op, func(m Memory) error {
		results := m.Results()
		if len(results) == 0 {
			return ErrNoResults
		}
		return Compare(ctx, d.t.Name(), results)
	})
}

// Compare compares device memory with its expected contents. The error is a *VerifyError for the
// first region that differs.
func Compare(ctx context.Context, trace string, regions []Region) error {
	for i := range regions {
		r := &regions[i]
		got := make([]byte, len(r.Want))
		if err := r.Read(ctx, got); err != nil {
			return err
		}
		if bytes.Equal(got, r.Want) {
			continue
		}
		first, n := differ(r.Want, got)
		return &VerifyError{Trace: trace, What: r.What, Offset: r.Offset + first, Differ: n, Size: len(r.Want), Want: r.Want[first],
			Got: got[first]}
	}
	return nil
}

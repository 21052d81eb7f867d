package debug

import (
	"bytes"
	"context"
	"errors"

	"github.com/reprise-tt/reprise/tracebuf"
)

// checkFlow is check for a trace with control flow. The programs one by one decide which way it
// goes.
func (c *check) checkFlow(ctx context.Context) error {
	var path []ranStep
	alone := func(programs, until int) func() error {
		return func() error {
			f := c.alone(programs, until)
			err := f.follow(ctx)
			path = f.path
			return err
		}
	}
	diff, err := c.compareFlow(ctx, alone(0, 0), func() error {
		if err := c.s.Replay(ctx); err != nil {
			return err
		}
		return c.finish(ctx)
	})
	if diff == nil || err != nil {
		return err
	}
	full, first, at := path, (*CheckError)(nil), Position{}
	probe := func(n int) (bool, error) {
		p, err := c.beginning(ctx, full, n)
		if err != nil {
			return false, err
		}
		d, err := c.compareFlow(ctx, alone(n, 0), func() error { return p.Run(ctx) })
		if d != nil {
			first, at = d, nth(full, n-1)
		}
		return d == nil, errors.Join(err, p.Release(ctx))
	}
	if n := programs(full); n > 0 {
		if _, err := bisect(n, probe); err != nil {
			return err
		}
		if first == nil {
			if _, err := probe(n); err != nil {
				return err
			}
		}
	}
	if first != nil {
		first.Step, first.Name, first.Loops = at.Step, at.Name, at.Loops
		return first
	}
	for i := range c.all {
		if err := c.s.Verify(ctx, i); err != nil {
			return err
		}
	}
	if len(c.parts) == 1 { // the first loop, branch or call that differs as a whole
		ends, steps := c.ends(), c.parts[0].Image.Steps
		found, err := bisect(len(ends), func(n int) (bool, error) {
			p, err := c.s.Place(ctx, []Piece{c.wholePiece(0, 0, ends[n-1], 0)})
			if err != nil {
				return false, err
			}
			d, err := c.compareFlow(ctx, alone(0, ends[n-1]), func() error { return p.Run(ctx) })
			if d != nil {
				first = d
			}
			return d == nil, errors.Join(err, p.Release(ctx))
		})
		if err != nil {
			return err
		}
		if first != nil {
			start := 0
			if found > 0 {
				start = ends[found-1]
			}
			first.Step, first.Name = -1, steps[start].Name
			return first
		}
	}
	diff.Step, diff.Name = -1, ""
	return diff
}

// ends returns the ends of the steps of the first part, with each loop, branch and call as one.
func (d *Debugger) ends() []int {
	var out []int
	for pc := 0; pc < len(d.parts[0].Image.Steps); {
		pc = max(pc+1, d.whole(0, pc))
		out = append(out, pc)
	}
	return out
}

// alone runs that many programs one by one, or those before a step of the first part; 0 stands for
// all.
func (c *check) alone(programs, until int) *follower {
	f := &follower{run: c.run, program: c.waited(func(ctx context.Context, at tracebuf.At,
		_ int) error {
		return c.s.Run(ctx, at.Part, at.Step)
	}), plain: true, most: programs, until: until}
	for i := range c.all {
		if c.all[i].Loaded {
			f.program, f.plain = c.waited(c.sendProgram), false
		}
	}
	return f
}

func (c *check) compareFlow(ctx context.Context, alone, replay func() error) (diff *CheckError, err error) {
	both := [2][][]byte{}
	for i, run := range []func() error{alone, replay} {
		if err := c.restore(ctx); err != nil {
			return nil, err
		}
		if err := run(); err != nil {
			var s *StepError
			if !errors.As(err, &s) {
				err = &StepError{Trace: c.t.Name(), First: -1, Last: -1, Name: c.t.Name(), Err: err}
			}
			return nil, err
		}
		if both[i], err = c.contents(ctx); err != nil {
			return nil, err
		}
	}
	for i, b := range c.bufs {
		if bytes.Equal(both[0][i], both[1][i]) {
			continue
		}
		return c.describe(b, both[0][i], both[1][i]), nil
	}
	return nil, nil
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
		if !r.hasControl() {
			step, err := r.bisect(ctx, prepare, good)
			if err == nil && step >= 0 {
				at = &Position{Queue: r.parts[r.runs[step].Part].Queue, Step: step, Name: r.step(r.runs[step]).Name, Run: step}
			}
			return err
		}
		if err := prepare(0); err != nil {
			return err
		}
		f := &follower{run: r, program: r.waited(r.sendProgram)}
		if err := f.follow(ctx); r.s.Hangs(err) {
			at = &f.at
			return r.s.Recover(ctx)
		} else if err != nil {
			return err
		}
		n := programs(f.path)
		ok, err := r.probe(ctx, n, prepare, good, func() error {
			if err := r.s.Replay(ctx); err != nil {
				return err
			}
			return r.finish(ctx)
		})
		if ok || err != nil || n == 0 {
			return err
		}
		found, err := bisect(n, func(k int) (ok bool, err error) {
			p, err := r.beginning(ctx, f.path, k)
			if err != nil {
				return false, err
			}
			defer func() { err = errors.Join(err, p.Release(ctx)) }()
			return r.probe(ctx, k, prepare, good, func() error { return p.Run(ctx) })
		})
		if err == nil {
			p := nth(f.path, found)
			at = &p
		}
		return err
	})
	return at, err
}

// probe reports whether the result of replay is good; a hang isn't.
func (r *run) probe(ctx context.Context, n int, prepare func(int) error, good func(int) (bool, error), replay func() error) (bool, error) {
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

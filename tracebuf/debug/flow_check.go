package debug

import (
	"context"
	"errors"

	"github.com/reprise-tt/reprise/tracebuf"
)

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
	diff, err := c.compareFlow(ctx, alone(0, 0), func() error { return c.replay(ctx) })
	if diff == nil || err != nil {
		return err
	}
	full := path
	if err := c.search(ctx, programs(full), func(n int) (*CheckError, error) {
		p, err := c.beginning(ctx, full, n)
		if err != nil {
			return nil, err
		}
		d, err := c.compareFlow(ctx, alone(n, 0), func() error { return p.Run(ctx) })
		if d != nil {
			at := nth(full, n-1)
			d.Step, d.Name, d.Loops = at.Step, at.Name, at.Loops
		}
		return d, errors.Join(err, p.Release(ctx))
	}); err != nil {
		return err
	}
	var first *CheckError
	if len(c.parts) == 1 {
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

func (c *check) compareFlow(ctx context.Context, alone, replay func() error) (*CheckError, error) {
	named := func(run func() error) func() error {
		return func() error {
			err := run()
			var s *StepError
			if err != nil && !errors.As(err, &s) {
				err = &StepError{Trace: c.t.Name(), First: -1, Last: -1, Name: c.t.Name(), Err: err}
			}
			return err
		}
	}
	return c.compareWays(ctx, named(alone), named(replay))
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
		ok, err := r.probe(ctx, n, prepare, good, func() error { return r.replay(ctx) })
		if ok || err != nil || n == 0 {
			return err
		}
		found, err := bisect(n, func(k int) (bool, error) {
			return r.probePlaced(ctx, k, prepare, good, func() (Placed, error) { return r.beginning(ctx, f.path, k) })
		})
		if err == nil {
			p := nth(f.path, found)
			at = &p
		}
		return err
	})
	return at, err
}

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

func (r *run) probePlaced(ctx context.Context, n int, prepare func(int) error, good func(int) (bool, error),
	place func() (Placed, error)) (ok bool, err error) {
	p, err := place()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.Release(ctx)) }()
	return r.probe(ctx, n, prepare, good, func() error { return p.Run(ctx) })
}

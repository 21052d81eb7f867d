package debug

import (
	"context"
	"errors"

	"github.com/reprise-tt/reprise/tracebuf"
)

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

package reprise_test

import (
	"context"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/sim"
)

func (b *bench) captureFlow(f func(r *reprise.Recorder) error) *reprise.Trace {
	b.Helper()
	t, err := b.queue.Capture(b.ctx, "flow", func(_ context.Context, r *reprise.Recorder) error { return f(r) })
	b.must(err)
	return t
}

func runs(r *reprise.Recorder, xs ...*reprise.Executable) func() error {
	return func() error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	}
}

// The device knows the iteration of a loop without waiting for programs.
func TestIterationConditions(t *testing.T) {
	onAll(t, func(b *bench) {
		n := b.pages("n", 2)
		one := b.load(b.adder("one", chip.Core{X: 1}, n, n, 1))
		fourth := reprise.Cond{Iteration: 1, Is: cq.NoneSet, Value: 3}
		trace := b.captureFlow(func(r *reprise.Recorder) error {
			return r.Loop(10, func() error { return errors.Join(r.If(fourth, runs(r, one), nil), r.Run(one)) })
		})
		for i, c := range trace.Parts()[0].Steps {
			if c.Name == "wait for results" {
				b.Errorf("step %d waits for results, which no condition here needs", i)
			}
		}
		b.write(n, 0)
		b.must(trace.Replay(b.ctx))
		b.holds(n, 3+10)
		b.must(trace.Release(b.ctx))
	})
}

// What can't be recorded is refused with the place and the reason, and the capture fails with it.
func TestFlowRefusals(t *testing.T) {
	b := open(t, sim.Blackhole())
	elsewhere := open(t, sim.Blackhole())
	n := b.pages("n", 2)
	one := b.load(b.adder("one", chip.Core{X: 1, Y: 2}, n, n, 1))
	other := elsewhere.capture("other", elsewhere.load(elsewhere.blank("blank", elsewhere.dev.Grid())))
	less := func(c reprise.Cond) reprise.Cond { c.Is = cq.Less; return c }
	var deep func(r *reprise.Recorder, n int) error
	deep = func(r *reprise.Recorder, n int) error {
		return r.Loop(1, func() error {
			if n == 0 {
				return r.Run(one)
			}
			return deep(r, n-1)
		})
	}
	failed := errors.New("the body has failed")
	for _, tc := range []struct {
		name string
		do   func(r *reprise.Recorder) error
		says []string
	}{
		{"no body", func(r *reprise.Recorder) error { return r.Loop(2, nil) }, []string{"loop", "no function to record with"}},
		{"a body that fails", func(r *reprise.Recorder) error { return r.Loop(2, func() error { return failed }) }, []string{"loop", "the body has failed"}},
		{"no limit", func(r *reprise.Recorder) error { return r.While(less(reprise.Cond{Buffer: n}), 0, runs(r, one)) }, []string{"while", "its limit is 0"}},
		{"no buffer", func(r *reprise.Recorder) error { return r.If(less(reprise.Cond{}), runs(r, one), nil) }, []string{"if", "nil"}},
		{"another device's buffer", func(r *reprise.Recorder) error {
			return r.If(less(reprise.Cond{Buffer: elsewhere.pages("x", 1)}), runs(r, one), nil)
		}, []string{"another device"}},
		{"no comparison", func(r *reprise.Recorder) error { return r.If(reprise.Cond{Buffer: n}, runs(r, one), nil) }, []string{"comparison never"}},
		{"an iteration of no loop", func(r *reprise.Recorder) error {
			return r.If(less(reprise.Cond{Iteration: 1}), runs(r, one), nil)
		}, []string{"if", "the iteration of loop 1", "0 loops"}},
		{"an iteration of too far a loop", func(r *reprise.Recorder) error {
			return r.While(less(reprise.Cond{Iteration: 2}), 5, runs(r, one))
		}, []string{"while", "the iteration of loop 2", "1 loops"}},
		{"an iteration below 0", func(r *reprise.Recorder) error {
			return r.While(less(reprise.Cond{Iteration: -1}), 5, runs(r, one))
		}, []string{"the iteration of loop -1"}},
		{"an iteration and a buffer", func(r *reprise.Recorder) error {
			return r.While(less(reprise.Cond{Iteration: 1, Buffer: n}), 5, runs(r, one))
		}, []string{"both an iteration and buffer"}},
		{"a word outside", func(r *reprise.Recorder) error {
			return r.If(less(reprise.Cond{Buffer: n, Offset: 128}), runs(r, one), nil)
		}, []string{"offset 128", "128 B"}},
		{"half a word", func(r *reprise.Recorder) error { return r.Switch(n, 2, runs(r, one)) }, []string{"switch", "offset 2", "multiple of 4"}},
		{"too deep", func(r *reprise.Recorder) error { return deep(r, cq.MaxLoops) }, []string{"17 deep"}},
		{"more than there are numbers for", func(r *reprise.Recorder) error {
			return r.Loop(1, func() error {
				for range cq.MaxLoopNumber + 1 {
					if err := r.Loop(1, func() error { return nil }); err != nil {
						return err
					}
				}
				return nil
			})
		}, []string{"loop", "65536 loops", "numbers up to 65535", "call it"}},
		{"another device's trace", func(r *reprise.Recorder) error { return r.Call(other) }, []string{`call trace "other"`, "no part on queue 0"}},
		{"no trace", func(r *reprise.Recorder) error { return r.Call(nil) }, []string{"it is nil"}},
		{"an argument of a loop", func(r *reprise.Recorder) error {
			return errors.Join(r.Loop(2, runs(r, one)), r.Param("x", addend))
		}, []string{`"x"`, "no program"}},
	} {
		trace, err := b.queue.Capture(b.ctx, tc.name, func(_ context.Context, r *reprise.Recorder) error { return tc.do(r) })
		if trace != nil || err == nil {
			t.Errorf("%s: it was recorded", tc.name)
			continue
		}
		b.says(err, tc.says...)
		if tc.name == "a body that fails" && !errors.Is(err, failed) {
			t.Errorf("%v isn't the body's error", err)
		}
	}
	// A failed capture leaves nothing held.
	b.must(errors.Join(one.Release(b.ctx), n.Release()))
	if s := b.dev.Memory(allocator.DRAM); s.Allocated != 0 {
		t.Errorf("%d B of DRAM are still allocated", s.Allocated)
	}
}

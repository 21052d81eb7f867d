package reprise_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/debug"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// deciding is a trace with all kinds of control flow: what it makes of the first word of n, and the
// names of the programs that run for it, in order.
func (b *bench) deciding() (t *reprise.Trace, n *reprise.Buffer, want func(first uint32) (uint32, []string)) {
	b.Helper()
	n = b.pages("n", 2)
	add := func(name string, k uint32) *reprise.Executable {
		return b.load(b.adder(name, chip.Core{X: int(k) % 3, Y: 1}, n, n, k))
	}
	one, ten, hundred := add("one", 1), add("ten", 10), add("hundred", 100)
	turn := func(is cq.Compare, n uint32) reprise.Cond { return reprise.Cond{Iteration: 1, Is: is, Value: n} }
	inner := b.captureFlow(func(r *reprise.Recorder) error {
		return errors.Join(r.Run(one), r.Run(hundred), r.Loop(2, func() error { return r.If(turn(cq.Equal, 1), runs(r, ten), nil) }))
	})
	t = b.captureFlow(func(r *reprise.Recorder) error {
		return errors.Join(
			r.Run(one),
			r.Loop(2, func() error {
				return errors.Join(r.Run(ten), r.If(reprise.Cond{Buffer: n, Is: cq.Less, Value: 20}, runs(r, one), runs(r, ten, ten)))
			}),
			r.Call(inner),
			r.While(reprise.Cond{Buffer: n, Is: cq.Less, Value: 300}, 50, runs(r, hundred)),
			r.Loop(0, runs(r, one)),
			r.Loop(3, func() error { return r.If(turn(cq.NoneSet, 1), runs(r, one), runs(r, ten)) }),
			r.Run(one),
		)
	})
	b.must(inner.Release(b.ctx))
	return t, n, func(v uint32) (uint32, []string) {
		var ran []string
		run := func(name string, k uint32) {
			ran = append(ran, name)
			v += k
		}
		run("one", 1)
		for range 2 {
			if run("ten", 10); v < 20 {
				run("one", 1)
			} else {
				run("ten", 10)
				run("ten", 10)
			}
		}
		run("one", 1)
		run("hundred", 100)
		run("ten", 10)
		for v < 300 {
			run("hundred", 100)
		}
		run("one", 1)
		run("ten", 10)
		run("one", 1)
		run("one", 1)
		return v, ran
	}
}

// A trace with control flow is stepped through as a replay goes: the host decides as the device
// would, and knows the iteration.
func TestStepThroughFlow(t *testing.T) {
	onAll(t, func(b *bench) {
		trace, n, want := b.deciding()
		before := b.allocated()
		for _, first := range []uint32{0, 5, 30, 400} {
			end, names := want(first)
			b.write(n, first)
			var ran []string
			programs := trace.Debug().Programs()
			b.must(trace.Debug().Step(b.ctx, func(step int) error { ran = append(ran, programs[step].Name); return nil }))
			b.holds(n, end)
			if diff := cmp.Diff(names, ran); diff != "" {
				b.Errorf("from %d (-want +got):\n%s", first, diff)
			}
			b.write(n, first)
			b.must(trace.Replay(b.ctx)) // the queue is as before
			b.holds(n, end)
			b.write(n, first)
			b.must(trace.Debug().Check(b.ctx))
			b.holds(n, first)
		}
		// Into and over.
		b.write(n, 0)
		var at []string
		b.must(trace.Debug().Follow(b.ctx, func(p debug.Position) bool { return p.Kind == flow.Loop && p.Run == 1 },
			func(p debug.Position) error {
				var word [4]byte
				b.must(b.queue.Read(b.ctx, n, 0, word[:]))
				at = append(at, fmt.Sprintf("%v %s: %d %v", p.Kind, p.Name, binary.LittleEndian.Uint32(word[:]), p.Loops))
				return nil
			}))
		end, _ := want(0)
		b.holds(n, end)
		if diff := cmp.Diff([]string{
			"none one: 1 []",
			"none ten: 11 [loop 0, iteration 0 of 2]", "branch if n[0] < 20: 12 [loop 0, iteration 0 of 2]",
			"none ten: 22 [loop 0, iteration 1 of 2]", "branch if n[0] < 20: 42 [loop 0, iteration 1 of 2]",
			"call call flow: 153 []", "loop while n[0] < 300: 353 []", "loop loop of 0: 353 []", "loop loop of 3: 365 []", "none one: 366 []",
		}, at); diff != "" {
			b.Errorf("-want +got:\n%s", diff)
		}
		times, err := trace.Debug().Times(b.ctx)
		b.must(err)
		_, names := want(end)
		var timed []string
		for _, x := range times {
			timed = append(timed, x.Name)
		}
		if diff := cmp.Diff(names, timed); diff != "" {
			b.Errorf("times (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, b.allocated()); diff != "" {
			b.Errorf("something is left (-before +after):\n%s", diff)
		}
		b.says(trace.Debug().Split(b.ctx, 2, nil), "control flow", "use Follow")
		b.must(trace.Release(b.ctx))
	})
}

// A check names the iteration in which a program differs, and what differs only as a whole.
func TestCheckFlow(t *testing.T) {
	onEmulators(t, func(b *bench) {
		n, hidden, seen := b.pages("n", 1), b.pages("hidden", 1), b.pages("seen", 1)
		one := b.load(b.adder("one", chip.Core{X: 1}, n, n, 1))
		count := b.adder("count", chip.Core{}, hidden, hidden, 1)
		count.Buffers = nil
		show := b.adder("show", chip.Core{X: 3}, hidden, seen, 0)
		show.Buffers = []*reprise.Buffer{seen}
		counts, shows := b.load(count), b.load(show)
		for _, u := range []*reprise.Buffer{n, hidden, seen} {
			b.write(u, 0)
		}
		trace := b.captureFlow(func(r *reprise.Recorder) error {
			return r.Loop(3, func() error {
				return errors.Join(r.Run(one), r.If(reprise.Cond{Buffer: n, Is: cq.Equal, Value: 2}, runs(r, counts, shows), nil))
			})
		})
		var ce *debug.CheckError
		err := trace.Debug().Check(b.ctx)
		if !errors.As(err, &ce) || ce.Name != "show" || ce.Buffer != "seen" || len(ce.Loops) != 1 || ce.Loops[0].Iteration != 1 {
			b.Errorf("found %v", err)
		}
		b.says(err, `program "show" in loop 0, iteration 1 of 3`)
		b.holds(n, 0)

		// The limit of a loop ends it on the host as well.
		endless := b.captureFlow(func(r *reprise.Recorder) error {
			return r.While(reprise.Cond{Buffer: n, Is: cq.Less, Value: 100}, 3, runs(r, one))
		})
		ran := 0
		err = endless.Debug().Step(b.ctx, func(int) error { ran++; return nil })
		var se *debug.StepError
		if !errors.Is(err, debug.ErrLimit) || !errors.As(err, &se) || ran != 3 ||
			!slices.ContainsFunc(se.Loops, func(i debug.Iteration) bool { return i.Iteration == 3 }) {
			b.Errorf("after %d programs: %v", ran, err)
		}
		b.write(n, 98)
		b.must(endless.Replay(b.ctx))
		b.holds(n, 100)
		b.must(errors.Join(trace.Release(b.ctx), endless.Release(b.ctx)))
	})
}

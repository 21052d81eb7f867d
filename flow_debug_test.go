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

// A trace with control flow is followed step by step, into some loops and over the rest: each
// position has its name and its iterations. Times names the programs that ran.
func TestFollow(t *testing.T) {
	onAll(t, func(b *bench) {
		n := b.pages("n", 2)
		add := func(name string, k uint32) *reprise.Executable {
			return b.load(b.adder(name, chip.Core{X: int(k) % 3, Y: 1}, n, n, k))
		}
		one, ten, hundred := add("one", 1), add("ten", 10), add("hundred", 100)
		inner := b.captureFlow(func(r *reprise.Recorder) error { return r.Run(one) })
		trace := b.captureFlow(func(r *reprise.Recorder) error {
			return errors.Join(
				r.Run(one),
				r.Loop(2, func() error {
					return errors.Join(r.Run(ten), r.If(reprise.Cond{Buffer: n, Is: cq.Less, Value: 20}, runs(r, one), runs(r, ten)))
				}),
				r.Call(inner),
				r.While(reprise.Cond{Buffer: n, Is: cq.Less, Value: 100}, 50, runs(r, hundred)),
				r.Run(one),
			)
		})
		b.must(inner.Release(b.ctx))
		before := b.allocated()
		b.write(n, 0)
		var at []string
		b.must(trace.Debug().Follow(b.ctx, func(p debug.Position) bool { return p.Kind == flow.Loop && p.Run == 1 },
			func(p debug.Position) error {
				at = append(at, fmt.Sprintf("%v %s: %d %v", p.Kind, p.Name, binary.LittleEndian.Uint32(b.read(n)), p.Loops))
				return nil
			}))
		if diff := cmp.Diff([]string{
			"none one: 1 []",
			"none ten: 11 [loop 0, iteration 0 of 2]", "branch if n[0] < 20: 12 [loop 0, iteration 0 of 2]",
			"none ten: 22 [loop 0, iteration 1 of 2]", "branch if n[0] < 20: 32 [loop 0, iteration 1 of 2]",
			"call call flow: 33 []", "loop while n[0] < 100: 133 []", "none one: 134 []",
		}, at); diff != "" {
			b.Errorf("positions (-want +got):\n%s", diff)
		}
		times, err := trace.Debug().Times(b.ctx)
		b.must(err)
		var timed []string
		for _, x := range times {
			timed = append(timed, x.Name)
		}
		if diff := cmp.Diff([]string{"one", "ten", "ten", "ten", "ten", "one", "one"}, timed); diff != "" {
			b.Errorf("programs with times (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, b.allocated()); diff != "" {
			b.Errorf("something is left (-before +after):\n%s", diff)
		}
		b.says(trace.Debug().Split(b.ctx, 2, nil), "control flow", "use Follow")
		b.must(trace.Release(b.ctx))
	})
}

package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/internal/effort"
)

// A hang in a trace with control flow is reported with the program that doesn't end and the loops
// that it is in; a loop beyond its limit with the program that ended last. Where the prefetcher has
// read ahead, the program is one of those that are named.
func TestHangNamesTheProgram(t *testing.T) {
	effort.Long(t)
	onEmulators(t, func(b *bench) {
		n := b.pages("n", 2)
		one := b.load(b.adder("one", chip.Core{X: 1, Y: 2}, n, n, 0))
		two := b.load(b.adder("two", chip.Core{X: 1, Y: 3}, n, n, 0))
		spin := b.spin("spin", b.word(), chip.BRISC, chip.Single(2, 2))
		capture := func(name string, f func(r *reprise.Recorder) error) *reprise.Trace {
			b.Helper()
			trace, err := b.queue.Capture(b.ctx, name, func(_ context.Context, r *reprise.Recorder) error { return f(r) })
			b.must(err)
			return trace
		}
		straight := capture("straight", func(r *reprise.Recorder) error { return runs(r, one, two, spin, one)() })
		looped := capture("looped", func(r *reprise.Recorder) error {
			return errors.Join(r.Run(two), r.Loop(2, runs(r, one, two)))
		})
		always := reprise.Cond{Buffer: n, Is: cq.Less, Value: 20}
		never := reprise.Cond{Buffer: n, Is: cq.Greater, Value: 20}
		for _, tt := range []struct {
			name   string
			record func(r *reprise.Recorder) error
			want   string // the loop that the queue is in, and the programs: each with its trace and its loops
			ahead  bool   // others may be named as well
			ended  bool
		}{
			{"while", func(r *reprise.Recorder) error { return r.While(always, 5, runs(r, one, spin, two)) }, "spin/t[0]", false, false},
			{"nested", func(r *reprise.Recorder) error {
				return r.Loop(3, func() error {
					return errors.Join(r.Run(one), r.While(always, 5, func() error { return errors.Join(r.Run(two), r.Loop(2, runs(r, one, spin))) }))
				})
			}, "spin/t[0 1 2]", false, false},
			{"branch", func(r *reprise.Recorder) error {
				return r.While(always, 5, func() error {
					return errors.Join(r.Run(two), r.If(never, runs(r, one, one), runs(r, one, spin)), r.Run(two))
				})
			}, "spin/t[0]", true, false},
			{"call", func(r *reprise.Recorder) error {
				return r.While(always, 5, func() error { return errors.Join(r.Run(two), r.Call(straight), r.Run(two)) })
			}, "spin/straight[]", false, false},
			{"loops in a row", func(r *reprise.Recorder) error {
				return errors.Join(r.Loop(3, runs(r, one, two)), r.Loop(2, runs(r, two, spin)), r.Loop(3, runs(r, one, one)))
			}, "spin/t[1]", true, false},
			{"limit", func(r *reprise.Recorder) error { return r.While(always, 3, runs(r, one, two)) }, "two/t[0]", false, true},
			{"limit after a branch", func(r *reprise.Recorder) error {
				return r.While(always, 3, func() error { return r.If(never, runs(r, one), runs(r, two)) })
			}, "two/t[0]", true, true},
			{"limit after a call", func(r *reprise.Recorder) error {
				return r.While(always, 3, func() error { return errors.Join(r.Run(one), r.Call(looped)) })
			}, "two/looped[0]", false, true},
		} {
			trace := capture("t", tt.record)
			b.write(n, 0)
			b.must(trace.Replay(b.ctx))
			h := b.hang(b.queue.Wait(b.ctx))
			var got []string
			for _, p := range h.Dump.Queues[0].Programs {
				got = append(got, described(p))
				if p.Ended != tt.ended {
					b.Errorf("%s: %v has ended: %t", tt.name, p, p.Ended)
				}
			}
			if !slices.Contains(got, tt.want) || !tt.ahead && len(got) != 1 {
				b.Errorf("%s: %q, want %s\n%s", tt.name, got, tt.want, h.Detail())
			}
			if name, _, _ := strings.Cut(tt.want, "/"); !strings.Contains(h.Error(), "program \""+name+"\"") ||
				!strings.Contains(h.Detail(), "in its trace ") {
				b.Errorf("%s: the report doesn't name %q: %v", tt.name, name, h)
			}
			b.must(b.dev.Recover(b.ctx))
			b.must(trace.Release(b.ctx))
		}
		b.must(errors.Join(straight.Release(b.ctx), looped.Release(b.ctx)))
	}, reprise.WithHangTimeout(300*time.Millisecond))
}

// described is as "spin/t[0 1]": program, trace and loops.
func described(p postmortem.TraceProgram) string {
	return p.Program + "/" + p.Trace + fmt.Sprint(p.Loops)
}

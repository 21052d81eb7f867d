package observe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/observe"
)

func outline(b *devtest.Bench, line *observe.Timeline) string {
	b.Helper()
	var out strings.Builder
	replays := map[uint64]observe.Span{}
	for _, s := range line.Spans() {
		if s.Queue >= 0 {
			replays[s.Call] = s
		}
	}
	var open []observe.ControlSpan
	for _, s := range line.ControlSpans() {
		r := replays[s.Call]
		if s.Depth > len(open) {
			b.Fatalf("%q has depth %d after depth %d", s.Name, s.Depth, len(open)-1)
		}
		open = open[:s.Depth]
		from, to := r.StartCycles, r.EndCycles
		hostFrom, hostTo := r.Start, r.End
		if n := len(open); n > 0 {
			from, to = open[n-1].Start, open[n-1].End
			hostFrom, hostTo = open[n-1].HostStart, open[n-1].HostEnd
		}
		if s.Start < from || s.End > to || s.Start > s.End {
			b.Errorf("%v %q took the device %d to %d, what is around it %d to %d", s.Kind, s.Name, s.Start, s.End, from, to)
		}
		if s.HostStart < hostFrom || s.HostEnd > hostTo || s.HostStart > s.HostEnd {
			b.Errorf("%v %q took %v to %v, what is around it %v to %v", s.Kind, s.Name, s.HostStart, s.HostEnd, hostFrom, hostTo)
		}
		open = append(open, s)
		fmt.Fprintf(&out, "%s%v %s %d %s", strings.Repeat("  ", s.Depth), s.Kind, s.Name, s.Number, strings.Join(s.Programs, "+"))
		if s.Aborted {
			out.WriteString(" aborted")
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func body(r *reprise.Recorder, xs ...*reprise.Executable) func() error {
	return func() error {
		var errs []error
		for _, x := range xs {
			errs = append(errs, r.Run(x))
		}
		return errors.Join(errs...)
	}
}

func TestTimelineOfControlFlow(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		n, m := b.Pages("n", 2), b.Pages("m", 2)
		one := b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, n, n, 1))
		two := b.Load(b.Adder("two", chip.Core{X: 2, Y: 1}, m, m, 2))
		capture := func(name string, f func(r *reprise.Recorder) error) *reprise.Trace {
			tr, err := b.Queue.Capture(b.Ctx, name, func(_ context.Context, r *reprise.Recorder) error { return f(r) })
			b.Must(err)
			return tr
		}
		inner := capture("inner", func(r *reprise.Recorder) error { return r.Loop(2, body(r, two)) })
		less := func(v uint32) reprise.Cond { return reprise.Cond{Buffer: n, Is: cq.Less, Value: v} }
		tr := capture("outer", func(r *reprise.Recorder) error {
			return errors.Join(
				r.Run(one), // n is 1
				r.Loop(2, func() error {
					return errors.Join(r.Run(one), r.While(less(4), 10, body(r, one)), r.Loop(0, body(r, two)), r.Call(inner))
				}),
				r.If(less(5), body(r, one), body(r, one, two)),
				r.If(less(6), body(r, two), nil),
				r.Switch(n, 0, body(r), body(r, one), body(r, two)),
			)
		})
		straight, err := b.Queue.Capture(b.Ctx, "straight", func(_ context.Context, r *reprise.Recorder) error { return r.Run(two) })
		b.Must(err)
		line, err := observe.StartTimeline(b.Ctx, b.Dev)
		b.Must(err)
		b.Must(b.Queue.Write(b.Ctx, n, 0, devtest.Words(n.Size(), 0)))
		b.Must(b.Queue.Write(b.Ctx, m, 0, devtest.Words(m.Size(), 0)))
		b.Must(straight.Replay(b.Ctx))
		b.Must(tr.Replay(b.Ctx))
		b.Must(inner.Replay(b.Ctx))
		b.Must(line.Stop(b.Ctx))
		want := `loop loop of 2 2
  iteration loop of 2 0 one
    loop while n[0] < 4 2
      iteration while n[0] < 4 0 one
      iteration while n[0] < 4 1 one
    call call inner 0
      loop loop of 2 2
        iteration loop of 2 0 two
        iteration loop of 2 1 two
  iteration loop of 2 1 one
    loop while n[0] < 4 0
    call call inner 0
      loop loop of 2 2
        iteration loop of 2 0 two
        iteration loop of 2 1 two
branch if n[0] < 5 1 one+two
loop loop of 2 2
  iteration loop of 2 0 two
  iteration loop of 2 1 two
`
		var lines []string
		for _, l := range strings.Split(outline(b, line), "\n") {
			lines = append(lines, strings.TrimRight(l, " "))
		}
		if diff := cmp.Diff(strings.Split(want, "\n"), lines); diff != "" {
			b.Errorf("spans (-want +got):\n%s", diff)
		}
		var file bytes.Buffer
		b.Must(line.WriteJSON(&file))
		inside := []string{"loop of 2", "iteration 0", "iteration 1"} // of inner
		tracks := slices.Concat(
			[]string{"write n", "write m", "replay straight", "replay outer"},
			[]string{"loop of 2", "iteration 0", "while n[0] < 4", "iteration 0", "iteration 1", "call inner"}, inside,
			[]string{"iteration 1", "while n[0] < 4", "call inner"}, inside,
			[]string{"if n[0] < 5: body 1", "replay inner"}, inside,
		)
		if diff := cmp.Diff(tracks, readTrace(b.T, file.Bytes())["queue 0"]); diff != "" {
			b.Errorf("slices in the file (-want +got):\n%s", diff)
		}
		if n := line.Dropped(); n != 0 {
			b.Errorf("%d turns were dropped", n)
		}
		b.Must(errors.Join(tr.Release(b.Ctx), inner.Release(b.Ctx)))
	})
}

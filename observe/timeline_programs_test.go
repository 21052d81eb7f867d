package observe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/sim"
)

func TestReplayedPrograms(t *testing.T) {
	b := devtest.Open(t, sim.Blackhole())
	n := b.Pages("n", 1)
	one, two := b.Load(b.Adder("one", chip.Core{X: 1}, n, n, 1)), b.Load(b.Adder("two", chip.Core{X: 2}, n, n, 2))
	taking := func(r *reprise.Recorder) error {
		return errors.Join(r.Run(one), r.Run(two, reprise.Arg{Kernel: "add", Index: 3, From: n}), r.Run(one))
	}
	for name, tc := range map[string]struct {
		record func(*reprise.Recorder) error
		want   []string
	}{
		"straight":          {func(r *reprise.Recorder) error { return body(r, one, two)() }, []string{"one", "two"}},
		"computed argument": {taking, []string{"one", "two", "one"}},
		"loop":              {func(r *reprise.Recorder) error { return r.Loop(2, body(r, one)) }, nil},
	} {
		tr, err := b.Queue.Capture(b.Ctx, name, func(_ context.Context, r *reprise.Recorder) error { return tc.record(r) })
		b.Must(err)
		got, ok := observe.ReplayedPrograms(tr.Parts()[0])
		if diff := cmp.Diff(tc.want, got); diff != "" || ok != (tc.want != nil) {
			t.Errorf("%s: %v (-want +got):\n%s", name, ok, diff)
		}
		b.Must(tr.Release(b.Ctx))
	}
}

func TestTimelineOfPrograms(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		n, m := b.Pages("n", 2), b.Pages("m", 2)
		one := b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, n, n, 1))
		two := b.Load(b.Adder("two", chip.Core{X: 2, Y: 1}, m, m, 2))
		straight, err := b.Queue.Capture(b.Ctx, "straight",
			func(_ context.Context, r *reprise.Recorder) error { return body(r, one, two, two)() })
		b.Must(err)
		loop, err := b.Queue.Capture(b.Ctx, "loop", func(_ context.Context, r *reprise.Recorder) error {
			return errors.Join(r.Loop(3, body(r, two, one)), r.Run(one))
		})
		b.Must(err)
		line, err := observe.StartTimeline(b.Ctx, b.Dev)
		b.Must(err)
		b.Must(b.Queue.Write(b.Ctx, n, 0, devtest.Words(n.Size(), 0)))
		b.Must(b.Queue.Run(b.Ctx, one))
		b.Must(straight.Replay(b.Ctx))
		b.Must(straight.Replay(b.Ctx))
		b.Must(loop.Replay(b.Ctx))
		if got := line.Programs(); got != nil {
			b.Errorf("before Stop there are %v", got)
		}
		b.Must(errors.Join(line.Stop(b.Ctx), line.Stop(b.Ctx)))
		calls := map[uint64]observe.Span{}
		for _, s := range line.Spans() {
			if s.Queue >= 0 {
				calls[s.Call] = s
			}
		}
		var got strings.Builder
		var last observe.ProgramSpan
		for _, s := range line.Programs() {
			c := calls[s.Call]
			if s.Start < max(c.StartCycles, last.End) || s.Start >= s.End || s.End > c.EndCycles {
				b.Errorf("%s of %q ran from %d to %d, the one before to %d, the call from %d to %d", s.Name, s.Trace, s.Start, s.End, last.End,
					c.StartCycles, c.EndCycles)
			}
			if s.HostStart < c.Start || s.HostEnd > c.End || s.HostStart > s.HostEnd {
				b.Errorf("%s of %q ran from %v to %v, the call from %v to %v", s.Name, s.Trace, s.HostStart, s.HostEnd, c.Start, c.End)
			}
			if s.Call != last.Call {
				fmt.Fprintf(&got, "\n%s %s:", s.Kind, s.Trace)
			}
			fmt.Fprintf(&got, " %s", s.Name)
			last = s
		}
		want := "\nrun : one\nreplay straight: one two two\nreplay straight: one two two\nreplay loop: two one two one two one one"
		if diff := cmp.Diff(want, got.String()); diff != "" {
			b.Errorf("programs (-want +got):\n%s", diff)
		}
		if n := line.Dropped(); n != 0 {
			b.Errorf("%d were dropped", n)
		}
		var file strings.Builder
		b.Must(line.WriteJSON(&file))
		if n := strings.Count(file.String(), `"cat":"program"`); n != len(line.Programs()) {
			b.Errorf("the file has %d programs, want %d", n, len(line.Programs()))
		}
		b.Must(errors.Join(straight.Release(b.Ctx), loop.Release(b.Ctx)))
	})
}

package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/promtext/promtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/kmd/session"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

type traceFile struct {
	Events []struct {
		Name     string   `json:"name"`
		Phase    string   `json:"ph"`
		Time     *float64 `json:"ts"`
		Duration *float64 `json:"dur"`
		Process  int      `json:"pid"`
		Thread   int      `json:"tid"`
		ID       uint64   `json:"id"`
		Args     struct {
			Name string `json:"name"`
		} `json:"args"`
	} `json:"traceEvents"`
}

func readTrace(t *testing.T, file []byte) map[string][]string {
	t.Helper()
	var f traceFile
	devtest.Must(t, json.Unmarshal(file, &f))
	type track struct{ process, thread int }
	names, processes := map[track]string{}, map[int]string{}
	for _, e := range f.Events {
		switch {
		case e.Phase == "M" && e.Name == "thread_name":
			names[track{e.Process, e.Thread}] = e.Args.Name
		case e.Phase == "M" && e.Name == "process_name":
			processes[e.Process] = e.Args.Name
		}
	}
	out := map[string][]string{}
	open := map[track][]float64{} // ends
	flows := map[uint64]string{}
	last := 0.0
	for _, e := range f.Events {
		if e.Phase == "M" {
			continue
		}
		at := track{e.Process, e.Thread}
		if names[at] == "" || processes[e.Process] == "" {
			t.Errorf("%q is on track %v, which has no name", e.Name, at)
		}
		if *e.Time < last {
			t.Errorf("%q at %g comes after something at %g", e.Name, *e.Time, last)
		}
		last = *e.Time
		if e.Phase != "X" {
			flows[e.ID] += e.Phase
			continue
		}
		end := *e.Time + *e.Duration
		stack := open[at]
		for len(stack) > 0 && stack[len(stack)-1] <= *e.Time+1e-3 {
			stack = stack[:len(stack)-1]
		}
		if len(stack) > 0 && end > stack[len(stack)-1]+1e-3 {
			t.Errorf("%q on %q, %g to %g, doesn't nest in what ends at %g", e.Name, names[at], *e.Time, end, stack[len(stack)-1])
		}
		open[at] = append(stack, end)
		out[names[at]] = append(out[names[at]], e.Name)
	}
	for id, phases := range flows {
		expect.Equal(t, phases, "sf", "arrow %#x has the ends", id)
	}
	return out
}

func TestTimeline(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		in, out := b.Pages("in", 8), b.Pages("out", 8)
		x := b.Load(b.Adder("add", chip.Core{X: 1}, in, out, 5))
		tr := b.Record("adds", func(r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.Run(x))
		})
		other := b.Dev.Queue(1)
		e := b.Dev.NewEvent("ran")
		line, err := observe.StartTimeline(b.Ctx, b.Dev)
		b.Must(err)
		end := line.Span("all of it")
		b.Write(in, 7)
		b.Execute(x)
		b.Replay(tr)
		b.Must(b.Queue.Record(b.Ctx, e))
		b.Must(other.WaitEvent(b.Ctx, e))
		got := make([]byte, out.Size())
		b.Must(other.Read(b.Ctx, out, 0, got))
		b.Must(e.Wait(b.Ctx))
		end()
		b.Must(line.Stop(b.Ctx))
		if !bytes.Equal(got, devtest.Words(out.Size(), 12)) {
			b.Error("the results differ")
		}
		b.Execute(x) // no longer observed

		var file bytes.Buffer
		b.Must(line.WriteJSON(&file))
		want := map[string][]string{
			"host": {"all of it", "write in", "run add", "replay adds", "record ran", "wait event ran", "read out",
				"pending wait out", "event wait ran"},
			"queue 0":             {"write in", "run add", "replay adds"},
			"queue 1":             {"wait event ran", "read out"},
			"programs of queue 0": {"add", "add", "add"},
		}
		noDiff(b, readTrace(b.T, file.Bytes()), want, "tracks")

		spans := line.Spans()
		find := func(kind string, queue int) *observe.Span {
			i := slices.IndexFunc(spans, func(s observe.Span) bool { return s.Kind == kind && s.Queue == queue })
			return &spans[i]
		}
		if replay, wait := find("replay", 0), find("wait event", 1); wait.EndCycles < replay.EndCycles {
			b.Errorf("the wait ended at %d, before the replay did at %d", wait.EndCycles, replay.EndCycles)
		}
		for _, s := range spans {
			if s.Queue >= 0 && s.StartCycles >= s.EndCycles {
				b.Errorf("%s %q took the device %d to %d", s.Kind, s.Name, s.StartCycles, s.EndCycles)
			}
			if s.End < s.Start {
				b.Errorf("%s %q: %v to %v", s.Kind, s.Name, s.Start, s.End)
			}
		}
		expect.Equal(b, line.Dropped(), 0, "dropped calls")
	}, reprise.WithQueues(2))
}

func TestTimelineOfGoroutines(t *testing.T) {
	b := devtest.Open(t, sim.Wormhole(), reprise.WithQueues(2))
	line, err := observe.StartTimeline(b.Ctx, b.Dev)
	b.Must(err)
	done := make(chan error)
	for g := range 4 {
		buf := b.Pages(fmt.Sprint(g), 32)
		go func() {
			q := b.Dev.Queue(g % 2)
			for i := range 20 {
				got, want := make([]byte, buf.Size()), devtest.Words(buf.Size(), uint32(100*g+i))
				if err := q.Write(b.Ctx, buf, 0, want); err != nil {
					done <- err
					return
				}
				if err := q.Read(b.Ctx, buf, 0, got); err != nil || !bytes.Equal(got, want) {
					done <- fmt.Errorf("goroutine %d, round %d: %v", g, i, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		b.Must(<-done)
	}
	b.Must(line.Stop(b.Ctx))
	var file bytes.Buffer
	b.Must(line.WriteJSON(&file))
	tracks := readTrace(t, file.Bytes())
	expect.Equal(t, len(tracks["queue 0"])+len(tracks["queue 1"]), 4*20*2, "the queues did things")
}

func TestTimelineOfZones(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im, err := kernels.Compile(b.Ctx, kernels.Source{Path: "zones.c", Arch: b.Dev.Arch(), Zones: true, Prints: true, Text: `
#include "reprise/zone.h"
void kernel_main(void) {
    reprise_zone("outer");
    reprise_print("line");
    {
        reprise_zone("inner");
        uint32_t since = rp_wall_clock_low();
        while (rp_wall_clock_low() - since < 100) {
        }
    }
}
`})
		if errors.Is(err, kernels.ErrNoCompiler) {
			b.Skip(err)
		}
		b.Must(err)
		p := &reprise.Program{Name: "zoned"}
		for i, on := range []chip.Processor{chip.NCRISC, chip.TRISC1} {
			p.Kernels = append(p.Kernels, reprise.Kernel{Name: fmt.Sprintf("k%d", i), Image: im, Processor: on,
				Cores: []chip.Range{chip.Single(2, 1)}})
		}
		x := b.Load(p)
		tr := b.Record("zones", func(r *reprise.Recorder) error { return r.Run(x) })
		line, err := observe.StartTimeline(b.Ctx, b.Dev)
		b.Must(err)
		l, err := print.Listen(b.Dev.Debug(), line.Record, print.Options{})
		b.Must(err)
		b.Execute(x)
		b.Replay(tr)
		b.Wait()
		b.Must(errors.Join(l.Close(), line.Stop(b.Ctx)))

		runs := line.Programs()
		if len(runs) != 2 {
			b.Fatalf("%d programs ran, want 2", len(runs))
		}
		var got []string
		for i, z := range line.Zones() {
			got = append(got, fmt.Sprintf("%v %s", z.Processor, z.Text))
			if in := runs[i%6/3]; z.Start < in.Start || z.Time > in.End || z.HostEnd < z.HostStart {
				b.Errorf("%v from %d to %d, its program from %d to %d", z, z.Start, z.Time, in.Start, in.End)
			}
		}
		var want []string
		for _, on := range []string{"NCRISC", "TRISC1"} {
			for range 2 {
				want = append(want, on+" outer", on+" line", on+" inner")
			}
		}
		noDiff(b, got, want, "zones")
		var file strings.Builder
		b.Must(line.WriteJSON(&file))
		var events struct {
			TraceEvents []struct {
				Name, Cat string
				Args      map[string]any
			}
		}
		b.Must(json.Unmarshal([]byte(file.String()), &events))
		tracks, zones := map[any]bool{}, 0
		for _, e := range events.TraceEvents {
			if e.Name == "thread_name" {
				tracks[e.Args["name"]] = true
			}
			if e.Cat == "zone" {
				zones++
			}
		}
		if !tracks["(2,1) NCRISC"] || !tracks["(2,1) TRISC1"] || zones != 8 {
			b.Errorf("the file has %d zones on tracks %v", zones, tracks)
		}
		b.Must(tr.Release(b.Ctx))
	})
}

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
		tr := b.Record(name, func(r *reprise.Recorder) error { return tc.record(r) })
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
		straight := b.Record("straight", func(r *reprise.Recorder) error { return body(r, one, two, two)() })
		loop := b.Record("loop", func(r *reprise.Recorder) error {
			return errors.Join(r.Loop(3, body(r, two, one)), r.Run(one))
		})
		line, err := observe.StartTimeline(b.Ctx, b.Dev)
		b.Must(err)
		b.Write(n, 0)
		b.Execute(one)
		b.Replay(straight)
		b.Replay(straight)
		b.Replay(loop)
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
		noDiff(b, got.String(), want, "programs")
		expect.Equal(b, line.Dropped(), 0, "dropped programs")
		var file strings.Builder
		b.Must(line.WriteJSON(&file))
		expect.Equal(b, strings.Count(file.String(), `"cat":"program"`), len(line.Programs()), "the file has programs")
		b.Must(errors.Join(straight.Release(b.Ctx), loop.Release(b.Ctx)))
	})
}

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
			tr := b.Record(name, func(r *reprise.Recorder) error { return f(r) })
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
		straight := b.Record("straight", func(r *reprise.Recorder) error { return r.Run(two) })
		line, err := observe.StartTimeline(b.Ctx, b.Dev)
		b.Must(err)
		b.Write(n, 0)
		b.Write(m, 0)
		b.Replay(straight)
		b.Replay(tr)
		b.Replay(inner)
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
		noDiff(b, lines, strings.Split(want, "\n"), "spans")
		var file bytes.Buffer
		b.Must(line.WriteJSON(&file))
		inside := []string{"loop of 2", "iteration 0", "iteration 1"} // of inner
		tracks := slices.Concat(
			[]string{"write n", "write m", "replay straight", "replay outer"},
			[]string{"loop of 2", "iteration 0", "while n[0] < 4", "iteration 0", "iteration 1", "call inner"}, inside,
			[]string{"iteration 1", "while n[0] < 4", "call inner"}, inside,
			[]string{"if n[0] < 5: body 1", "replay inner"}, inside,
		)
		noDiff(b, readTrace(b.T, file.Bytes())["queue 0"], tracks, "slices in the file")
		expect.Equal(b, line.Dropped(), 0, "dropped turns")
		b.Must(errors.Join(tr.Release(b.Ctx), inner.Release(b.Ctx)))
	})
}

func TestTimelineOfEngines(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		at, idle := chip.Core{X: 2, Y: 1}, chip.Core{X: 0, Y: 1}
		p, err := devtest.SemaphoreWait(b.Ctx, b.Dev, at,
			40_000_000) // a tenth of a second and more, for a sampler that a busy host lets run late
		if errors.Is(err, kernels.ErrNoCompiler) {
			b.Skip(err)
		}
		b.Must(err)
		x := b.Load(p)
		line, err := observe.StartTimeline(b.Ctx, b.Dev)
		b.Must(err)
		var outside *chip.CoordinateError
		if err := line.SampleEngines(time.Millisecond, chip.Core{X: 99}); !errors.As(err, &outside) {
			b.Errorf("a core outside of the chip: %v", err)
		}
		if line.SampleEngines(0, at) == nil || line.SampleEngines(time.Millisecond) == nil {
			b.Error("no interval and no worker: no error")
		}
		b.Must(line.SampleEngines(200*time.Microsecond, idle, at))
		b.Execute(x)
		b.Wait()
		b.Must(line.Stop(b.Ctx))
		expect.Error(b, line.SampleEngines(time.Millisecond, at)) // the timeline has stopped
		want := []observe.EngineSpan{{Worker: at, Thread: 1, Wait: "SEMWAIT 0xa6ff8005 waits while semaphore 0 is 0"}}
		spans := line.EngineSpans()
		if diff := cmp.Diff(want, spans, cmpopts.IgnoreFields(observe.EngineSpan{}, "Start", "End")); diff != "" {
			b.Fatalf("spans (-want +got):\n%s", diff)
		}
		if s := spans[0]; s.End <= s.Start {
			b.Errorf("from %v to %v", s.Start, s.End)
		}
		var file bytes.Buffer
		b.Must(line.WriteJSON(&file))
		noDiff(b, readTrace(b.T, file.Bytes())["worker (2,1) math"], []string{want[0].Wait}, "track")
	})
}

func TestEnginesOfADeviceThatDoesNotTell(t *testing.T) {
	b := devtest.Open(t, session.Record(sim.Wormhole(), io.Discard)) // a recorder doesn't pass it on
	line, err := observe.StartTimeline(b.Ctx, b.Dev)
	b.Must(err)
	expect.Says(b, line.SampleEngines(time.Millisecond, chip.Core{}), errors.ErrUnsupported, "an emulated device does")
	b.Must(line.Stop(b.Ctx))
}

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

func onAll(t *testing.T, run func(*devtest.Bench)) {
	devtest.OnEmulators(t, run)
	for _, library := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
		t.Run(library, func(t *testing.T) { run(devtest.Open(t, ttsimtest.Card(t, library))) })
	}
}

var noDiff = expect.NoDiff

func scrape(t *testing.T, m *observe.Metrics) map[string]float64 {
	t.Helper()
	var text strings.Builder
	expect.Value(m.WriteTo(&text))(t)
	series, err := promtest.Parse(text.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	return series
}

func TestMetrics(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		var m observe.Metrics
		stop := m.Observe(b.Dev)
		m.Observe(b.Dev)() // it is observed already
		in := b.Pages("in", 2)
		x := b.Load(b.Adder("add", chip.Core{}, in, in, 1))
		tr := b.Record("adds", func(r *reprise.Recorder) error { return r.Run(x) })
		for range 3 {
			b.Replay(tr)
		}
		replayed := 0
		for _, p := range tr.Parts() {
			replayed += p.ReplayBytes
		}
		data := make([]byte, in.Size())
		b.Must(b.Queue.Write(b.Ctx, in, 0, data))
		b.Must(b.Queue.Read(b.Ctx, in, 0, data))
		expect.Error(b, b.Queue.WaitEvent(b.Ctx, b.Dev.NewEvent("never recorded")))
		series := scrape(b.T, &m)
		value := func(name, labels string) float64 {
			b.Helper()
			key := fmt.Sprintf("%s{device=%q,%s}", name, b.Dev.Name(), labels)
			v, ok := series[key]
			if !ok {
				b.Errorf("no %s", key)
			}
			return v
		}
		for _, x := range []struct {
			name, labels string
			want         float64
		}{
			{"reprise_call_duration_seconds_count", `call="replay"`, 3},
			{"reprise_call_duration_seconds_count", `call="allocate"`, 1},
			{"reprise_call_duration_seconds_count", `call="pending wait"`, 1},
			{"reprise_call_errors_total", `call="wait event",reason="other"`, 1},
			{"reprise_call_bytes_total", `call="write"`, float64(in.Size())},
			{"reprise_call_bytes_total", `call="read"`, float64(in.Size())},
			{"reprise_call_bytes_total", `call="allocate"`, float64(in.Size())},
			{"reprise_call_bytes_total", `call="replay"`, float64(3 * replayed)},
			{"reprise_calls_in_flight", `call="replay"`, 0},
			{"reprise_devices", fmt.Sprintf("arch=%q", b.Dev.Arch()), 1},
		} {
			expect.Equal(b, value(x.name, x.labels), x.want, "%s of %s", x.name, x.labels)
		}
		for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1, allocator.Trace} {
			st, kind := b.Dev.Memory(k), fmt.Sprintf("kind=%q", k.Code())
			if got, want := value("reprise_device_memory_allocated_bytes", kind), float64(st.Allocated)*float64(st.Banks); got != want {
				b.Errorf("%v: %v B allocated, want %v", k, got, want)
			}
			if value("reprise_device_memory_extents", kind) != float64(st.Extents) ||
				value("reprise_device_memory_capacity_bytes", kind) == 0 ||
				value("reprise_device_memory_largest_free_bytes", kind) == 0 ||
				value("reprise_device_memory_peak_bytes", kind) < value("reprise_device_memory_allocated_bytes", kind) {
				b.Errorf("%v: extents, capacity, peak or what is free", k)
			}
		}
		stop()
		stop()
		b.Replay(tr)
		series = scrape(b.T, &m)
		expect.Equal(b, value("reprise_call_duration_seconds_count", `call="replay"`), 3, "replays after the end")
		for name := range series {
			if strings.HasPrefix(name, "reprise_device_memory_") || strings.HasPrefix(name, "reprise_devices") {
				b.Errorf("after the end there is %s", name)
			}
		}
		defer m.Observe(b.Dev)()
		b.Replay(tr)
		series = scrape(b.T, &m)
		expect.Equal(b, value("reprise_call_duration_seconds_count", `call="replay"`), 4, "replays once it is observed again")
	})
}

// A program serves the metrics of its devices beside its own.
func ExampleMetrics() {
	ctx := context.Background()
	var metrics observe.Metrics
	mux := http.NewServeMux() // for http.ListenAndServe
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", observe.MetricsContentType)
		_, _ = metrics.WriteTo(w)
	})

	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	defer metrics.Observe(dev)()
	in, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 4096, Name: "in"})
	check(err)
	for range 3 {
		check(dev.Queue(0).Write(ctx, in, 0, make([]byte, 4096)))
	}

	scrape := httptest.NewRecorder()
	mux.ServeHTTP(scrape, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(scrape.Body.String()) {
		if strings.Contains(line, "reprise_call_bytes_total{") {
			fmt.Print(line)
		}
	}
	// Output:
	// reprise_call_bytes_total{device="emulated wormhole 0",call="write"} 12288
	// reprise_call_bytes_total{device="emulated wormhole 0",call="allocate"} 4096
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

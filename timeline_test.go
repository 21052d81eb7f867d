package reprise_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/sim"
)

// traceFile is a file of trace events, as a viewer reads it.
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

// readTrace checks that a file is what viewers take, and returns the names of the spans of each track, in order.
func readTrace(t *testing.T, file []byte) map[string][]string {
	t.Helper()
	var f traceFile
	if err := json.Unmarshal(file, &f); err != nil {
		t.Fatal(err)
	}
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
			t.Errorf("%q at %g is behind something at %g", e.Name, *e.Time, last)
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
		if phases != "sf" {
			t.Errorf("arrow %#x has the ends %q", id, phases)
		}
	}
	return out
}

// A timeline has a track for the host and one for each queue, on which spans are in order and nest.
func TestTimeline(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out := b.pages("in", 8), b.pages("out", 8)
		x := b.load(b.adder("add", reprise.Core{X: 1}, in, out, 5))
		tr := b.capture("adds", x, x)
		other := b.dev.Queue(1)
		e := b.dev.NewEvent("ran")
		line, err := b.dev.StartTimeline(b.ctx)
		b.must(err)
		end := line.Span("all of it")
		b.write(in, 7)
		b.must(b.queue.Run(b.ctx, x))
		b.must(tr.Replay(b.ctx))
		b.must(b.queue.Record(b.ctx, e))
		b.must(other.Wait(b.ctx, e))
		got := make([]byte, out.Size())
		b.must(other.Read(b.ctx, out, 0, got))
		b.must(e.Synchronize(b.ctx))
		end()
		b.must(line.Stop(b.ctx))
		if !bytes.Equal(got, words(out.Size(), 12)) {
			b.Error("the results differ")
		}
		b.must(b.queue.Run(b.ctx, x)) // is heard no more

		var file bytes.Buffer
		b.must(line.WriteJSON(&file))
		want := map[string][]string{
			"host":    {"all of it", "write in", "run add", "replay adds", "record ran", "wait ran", "read out", "await out", "synchronize ran"},
			"queue 0": {"write in", "run add", "replay adds"},
			"queue 1": {"wait ran", "read out"},
		}
		if diff := cmp.Diff(want, readTrace(b.T, file.Bytes())); diff != "" {
			b.Errorf("tracks (-want +got):\n%s", diff)
		}

		// The device's own order: the wait ends behind what it waits for, and nothing takes no time.
		spans := line.Spans()
		find := func(kind string, queue int) *reprise.Span {
			i := slices.IndexFunc(spans, func(s reprise.Span) bool { return s.Kind == kind && s.Queue == queue })
			return &spans[i]
		}
		if replay, wait := find("replay", 0), find("wait", 1); wait.EndCycles < replay.EndCycles {
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
		if n := line.Dropped(); n != 0 {
			b.Errorf("%d calls were dropped", n)
		}
	}, reprise.WithQueues(2))
}

// Several goroutines at once get tracks of their own, and a timeline can be taken while they work.
func TestTimelineOfGoroutines(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithQueues(2))
	line, err := b.dev.StartTimeline(b.ctx)
	b.must(err)
	done := make(chan error)
	for g := range 4 {
		buf := b.pages(fmt.Sprint(g), 32)
		go func() {
			q := b.dev.Queue(g % 2)
			for i := range 20 {
				got, want := make([]byte, buf.Size()), words(buf.Size(), uint32(100*g+i))
				if err := q.Write(b.ctx, buf, 0, want); err != nil {
					done <- err
					return
				}
				if err := q.Read(b.ctx, buf, 0, got); err != nil || !bytes.Equal(got, want) {
					done <- fmt.Errorf("goroutine %d, round %d: %v", g, i, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		b.must(<-done)
	}
	b.must(line.Stop(b.ctx))
	var file bytes.Buffer
	b.must(line.WriteJSON(&file))
	tracks := readTrace(t, file.Bytes())
	if n := len(tracks["queue 0"]) + len(tracks["queue 1"]); n != 4*20*2 {
		t.Errorf("the queues did %d things, want %d", n, 4*20*2)
	}
}

// heard is what an Observer hears.
type heard struct{ calls []string }

func (h *heard) Begin(_ context.Context, c *reprise.Call) {
	h.calls = append(h.calls, fmt.Sprintf("%v %s", c.Kind, c.Name))
}

func (h *heard) End(_ context.Context, c *reprise.Call) {
	if c.Err != nil {
		h.calls = append(h.calls, "failed")
	}
}

// An Observer hears of every call, and of the objects that come of it; when it is gone, of none.
func TestObserver(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	var h, second heard
	stop := b.dev.Observe(&h)
	stopSecond := b.dev.Observe(&second)
	in := b.pages("in", 2)
	x := b.load(b.adder("add", reprise.Core{}, in, in, 1))
	tr := b.capture("adds", x)
	b.write(in, 1)
	b.must(b.queue.Run(b.ctx, x))
	stopSecond()
	b.must(tr.Replay(b.ctx))
	b.holds(in, 3)
	e := b.dev.NewEvent("e")
	if err := b.queue.Wait(b.ctx, e); err == nil {
		t.Error("a wait for what was never recorded")
	}
	b.must(b.queue.Record(b.ctx, e))
	b.must(b.queue.Finish(b.ctx))
	b.must(tr.Release(b.ctx))
	b.must(x.Close(b.ctx))
	b.must(in.Free())
	stop()
	b.pages("later", 1)
	want := []string{
		"allocate in", "load add", "capture adds", "write in", "run add", "replay adds", "read in", "await in", "wait e", "failed",
		"record e", "finish ", "release adds", "unload add", "free in",
	}
	if diff := cmp.Diff(want, h.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:5], second.calls); diff != "" {
		t.Errorf("calls that the second one heard (-want +got):\n%s", diff)
	}
}

package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/sim"
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
		if phases != "sf" {
			t.Errorf("arrow %#x has the ends %q", id, phases)
		}
	}
	return out
}

func TestTimeline(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		in, out := b.Pages("in", 8), b.Pages("out", 8)
		x := b.Load(b.Adder("add", chip.Core{X: 1}, in, out, 5))
		tr, err := b.Queue.Capture(b.Ctx, "adds", func(_ context.Context, r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.Run(x))
		})
		b.Must(err)
		other := b.Dev.Queue(1)
		e := b.Dev.NewEvent("ran")
		line, err := observe.StartTimeline(b.Ctx, b.Dev)
		b.Must(err)
		end := line.Span("all of it")
		b.Must(b.Queue.Write(b.Ctx, in, 0, devtest.Words(in.Size(), 7)))
		b.Must(b.Queue.Run(b.Ctx, x))
		b.Must(tr.Replay(b.Ctx))
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
		b.Must(b.Queue.Run(b.Ctx, x)) // is heard no more

		var file bytes.Buffer
		b.Must(line.WriteJSON(&file))
		want := map[string][]string{
			"host": {"all of it", "write in", "run add", "replay adds", "record ran", "wait event ran", "read out",
				"pending wait out", "event wait ran"},
			"queue 0":             {"write in", "run add", "replay adds"},
			"queue 1":             {"wait event ran", "read out"},
			"programs of queue 0": {"add", "add", "add"},
		}
		if diff := cmp.Diff(want, readTrace(b.T, file.Bytes())); diff != "" {
			b.Errorf("tracks (-want +got):\n%s", diff)
		}

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
		if n := line.Dropped(); n != 0 {
			b.Errorf("%d calls were dropped", n)
		}
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
	if n := len(tracks["queue 0"]) + len(tracks["queue 1"]); n != 4*20*2 {
		t.Errorf("the queues did %d things, want %d", n, 4*20*2)
	}
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
		tr, err := b.Queue.Capture(b.Ctx, "zones", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
		b.Must(err)
		line, err := observe.StartTimeline(b.Ctx, b.Dev)
		b.Must(err)
		l, err := print.Listen(b.Dev.Debug(), line.Record, print.Options{})
		b.Must(err)
		b.Must(b.Queue.Run(b.Ctx, x))
		b.Must(tr.Replay(b.Ctx))
		b.Must(b.Queue.Wait(b.Ctx))
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
		if d := cmp.Diff(want, got); d != "" {
			b.Errorf("zones:\n%s", d)
		}
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

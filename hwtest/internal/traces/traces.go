// Package traces has the cases of recorded traces: capture, replay, parameters, files, debugging.
package traces

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/programs"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
)

// Cases are the cases of layer traces.
func Cases() (cs rig.Table) {
	for _, n := range []int{1, 2, 6, 7, 8, 9, 16, 17, 100, 500} {
		rig.Pairs(&cs, "%d programs %d times", "a replay runs each recorded program once, in order, every time",
			func(t *rig.T, n, replays int) { TraceOf(t, n, replays, false) }, []int{n}, []int{1, 10})
		rig.Each(&cs, "%d programs with runs between", "replays and ordinary runs follow each other in order",
			func(t *rig.T, n int) { TraceOf(t, n, 4, true) }, n)
	}
	rig.Each(&cs, "%d traces alive", "several traces replay in any order without touching each other", tracesAlive, 1, 3, 8)
	cs = slices.Concat(cs, captureCases(), debugCases(), fileCases())
	cs.Add("capture runs nothing", "what is recorded doesn't run, and the queue goes on as before", captureRunsNothing)
	cs.Add("hundreds of replays", "replays follow each other without waits, hundreds of times", hundredsOfReplays)
	cs.Add("different programs", "programs of all sizes share the kernel-config ring in a replay", mixedSizes)
	cs.Add("long commands", "a program whose commands span fetch entries can be recorded", longCommands)
	cs.Add("input of a replay", "a replay reads what its buffers hold now, not what they held at the capture", inputs)
	cs.Add("release gives memory back", "after a release everything is allocated as before the capture", traceRelease)
	cs.Add("error names the place", "a *CaptureError names the operation and the caller's line", captureErrorPlace)
	cs.Add("closed program in a trace", "a trace keeps the kernels of a program that was closed", closedInTrace)
	cs.Add("freed buffer in a trace", "memory that a trace writes isn't handed out before its release", freedInTrace)
	cs.Add("description", "a trace's size, steps, extents and text agree", traceDescription)
	cs.Add("concurrent use", "a queue takes replays, runs and transfers from several goroutines", concurrentUse)
	cs.Add("replays allocate nothing", "a replay allocates no memory on the host", replayAllocates).Alone = true
	return cs
}

// TraceOf replays a trace of n programs, with runs between replays if asked.
func TraceOf(t *rig.T, n, replays int, between bool) {
	if t.Device.Kind == target.Simulator {
		n, replays = min(n, 60), min(replays, 3)
	}
	f := t.Follow()
	on := chip.Grid(4, 3)
	var xs, seq []*reprise.Executable
	for i := range min(n, 5) {
		xs = append(xs, f.Load(fmt.Sprint(i), uint32(i+1), on))
	}
	for i := range n {
		seq = append(seq, xs[i*3%len(xs)])
	}
	tr := f.Capture("trace", seq...)
	for r := range replays {
		f.Replay(tr)
		for k := 0; between && k <= r; k++ {
			f.Start(xs[k%len(xs)])
		}
	}
	f.Check("after all replays")
}

func tracesAlive(t *rig.T, n int) {
	f := t.Follow()
	var traces []*reprise.Trace
	for i := range n {
		x := f.Load(fmt.Sprint(i), uint32(100+i))
		traces = append(traces, f.Capture(fmt.Sprint(i), x, x))
	}
	for k := range 5 * n {
		f.Replay(traces[k*k%n])
	}
	f.Check("all traces")
}

func captureRunsNothing(t *rig.T) {
	f := t.Follow()
	x := f.Load("x", 9)
	f.Start(x)
	tr := t.Capture("t", x, x, x)
	f.Check("after the capture")
	f.Start(x)
	f.Check("after a run after the capture")
	t.Release(tr)
	f.Start(x)
	f.Check("after a trace that never ran was released")
}

func hundredsOfReplays(t *rig.T) {
	f := t.Follow()
	on := chip.Grid(2, 2)
	x := f.Load("x", 5, on)
	tr := f.Capture("t", x, x)
	for range t.Size(t.More(1000, 50_000), 100) {
		f.Replay(tr)
	}
	f.Check("after all replays")
}

func mixedSizes(t *rig.T) {
	f := t.Follow()
	xs := f.LoadSizes(1, []int{0, 40_000, 1000, 30_000, 69_000, 5000, 20_000})
	var seq []*reprise.Executable
	for i := range t.Size(120, 20) {
		seq = append(seq, xs[i*i%len(xs)])
	}
	tr := f.Capture("t", seq...)
	for r := range 3 {
		f.Replay(tr)
		f.Start(xs[r])
	}
	f.Check("after three replays")
}

func longCommands(t *rig.T) {
	longTrace(t, func(tr *reprise.Trace) {
		t.Replay(tr)
		t.Wait()
	})
}

// longTrace records runs of a program whose commands are longer than a fetch entry may be.
func longTrace(t *rig.T, play func(*reprise.Trace)) {
	x, lengthen, check := programs.LongProgram(t)
	lengthen()
	play(t.Capture("t", x, x))
	check()
}

func inputs(t *rig.T) {
	const size, pages = 512, 40
	in, out, room := t.DRAMBuffer(pages*size, size), t.DRAMBuffer(pages*size, size), t.PerWorker(size)
	x := t.Load(t.CopyProgram("copy", chip.NCRISC, t.Grid().End, in, out, room))
	tr := t.Capture("copy", x)
	for i := range 5 {
		want := t.Fill(in, i)
		t.Replay(tr)
		t.Holds(out, want, "replay %d", i)
	}
}

func traceRelease(t *rig.T) {
	f := t.Follow()
	x := f.Load("x", 5)
	before := t.Allocated()
	for range 3 {
		tr := f.Capture("t", x)
		if t.Allocated().Trace <= before.Trace {
			t.Error("a trace takes no memory")
		}
		f.Replay(tr)
		t.Release(tr)
		t.SameMemory(before)
	}
	f.Check("after the releases")
}

func captureErrorPlace(t *rig.T) {
	x := t.Load(t.BlankProgram("gone"))
	t.Release(x)
	_, err := t.Record("t", func(r *reprise.Recorder) error { return r.Run(x) })
	c := rig.As[*reprise.CaptureError](t, err)
	if !strings.HasSuffix(c.File, "traces/traces.go") || c.Line == 0 || !strings.Contains(c.Op, "gone") {
		t.Errorf("error %#v: %v", c, err)
	}
	_, err = t.Record("t", func(r *reprise.Recorder) error { _ = r.Run(x); return nil })
	t.Fails("a swallowed error", err, reprise.ErrReleased)
}

func closedInTrace(t *rig.T) {
	f := t.Follow()
	x := f.LoadLong("x", 5, 8192)
	tr := f.Capture("t", x)
	t.Release(x)
	// New buffers must not lie where the closed program's kernels are.
	b := t.DRAMBuffer(1<<20, 2048)
	t.Fill(b, 3)
	y := f.LoadLong("y", 6, 8192)
	for range 3 {
		f.Replay(tr)
		f.Start(y)
	}
	f.Check("replays of a closed program")
}

func freedInTrace(t *rig.T) {
	b := t.L1Buffer(64*t.Grid().Size(), 64)
	x := t.Load(t.StoreProgram("x", t.Grid(), b, 1))
	tr := t.Capture("t", x)
	t.Release(x)
	t.Free(b)
	leavesOthers(t, tr, b)
	t.Release(tr)
	rig.Equal(t, t.L1Buffer(b.Size(), 64).Addr(), b.Addr(), "address of a buffer after the release")
}

// leavesOthers replays a trace that writes a released buffer, beside buffers that are new.
func leavesOthers(t *rig.T, tr *reprise.Trace, b *reprise.Buffer) {
	var others []*reprise.Buffer
	for range 4 {
		o := t.L1Buffer(b.Size(), 64)
		if o.Addr() < b.Addr()+64 && b.Addr() < o.Addr()+64 {
			t.Errorf("a buffer at %#x overlaps the one at %#x that a trace writes", o.Addr(), b.Addr())
		}
		t.Write(o, rig.Pattern(o.Addr(), o.Size()))
		others = append(others, o)
	}
	t.Replay(tr)
	for _, o := range others {
		t.Holds(o, rig.Pattern(o.Addr(), o.Size()), "another buffer after the replay")
	}
}

func traceDescription(t *rig.T) {
	f := t.Follow()
	x, y := f.Load("first", 5), f.Load("second", 6)
	if x.Cores() != t.Grid().Size() || x.Commands().Bytes <= 0 {
		t.Errorf("a program has %d cores and %d B of commands", x.Cores(), x.Commands().Bytes)
	}
	before := t.Dev.Memory(allocator.Trace)
	tr := t.Capture("two", x, y, x)
	if tr.Name() != "two" || len(tr.Parts()[0].Steps) != 3 || tr.Parts()[0].Steps[1].Name != "second" {
		t.Errorf("%q: %+v", tr.Name(), tr.Parts()[0].Steps)
	}
	at := 0
	for _, s := range tr.Parts()[0].Steps {
		if s.Offset != at || s.Size <= 0 {
			t.Errorf("step %+v, want one at %d", s, at)
		}
		at += s.Size
	}
	total := 0
	for i, e := range tr.Parts()[0].Extents {
		if e.Bank != i || e.End <= e.Start || e.End > t.Dev.DRAMBankSize() {
			t.Errorf("extent %+v", e)
		}
		total += int(e.End - e.Start)
	}
	if total != tr.Size() || tr.Size() < at {
		t.Errorf("extents have %d B, the trace %d B, its steps %d B", total, tr.Size(), at)
	}
	if m := t.Dev.Memory(allocator.Trace); m.Extents != before.Extents+1 || (m.Allocated-before.Allocated)*uint64(m.Banks) < uint64(total) {
		t.Errorf("the banks hold %d B, the allocator has %+v, before %+v", total, m, before)
	}
	if n := tr.Parts()[0].ReplayBytes; n <= 0 || n > 512 {
		t.Errorf("a replay writes %d B", n)
	}
	var text bytes.Buffer
	t.OK(tr.Print(&text))
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if last := lines[len(lines)-1]; len(lines) < 10 || !strings.Contains(last, "EXEC_BUF_END") {
		t.Errorf("%d lines, the last is %q", len(lines), last)
	}
	for _, w := range []string{"WRITE_PACKED", "SEND_GO_SIGNAL", "WRITE_PACKED_LARGE", "EXEC_BUF_END"} {
		t.Says(errors.New(text.String()), w)
	}
}

func concurrentUse(t *rig.T) {
	f := t.Follow()
	on := chip.Grid(3, 3)
	x := f.Load("x", 5, on)
	tr := t.Capture("t", x)
	n := t.Size(40, 10)
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for g := range 4 {
		b := t.DRAMBuffer(64*50, 64)
		wg.Go(func() {
			for i := range n {
				if g%2 == 0 {
					errs <- t.Queue.Run(t.Ctx, x)
				} else {
					errs <- tr.Replay(t.Ctx)
				}
				errs <- t.ComesBack(b, 100*g+i)
			}
		})
	}
	go func() { wg.Wait(); close(errs) }()
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	t.Wait()
	for range 4 * n {
		f.Ran(x)
	}
	f.Check("all runs and replays")
}

func replayAllocates(t *rig.T) {
	f := t.Follow()
	on := t.Grid().Start.Range()
	x := f.Load("x", 5, on)
	tr := t.Capture("t", x)
	replay := func() {
		t.Replay(tr)
		f.Run(5, on)
	}
	replay()
	t.AllocatesNothing("a replay", replay)
	f.Check("all replays")
}

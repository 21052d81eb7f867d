package hwtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kernels"
)

func traceCases() []testCase {
	var cs []testCase
	for _, n := range []int{1, 2, 6, 7, 8, 9, 16, 17, 100, 500} {
		for _, replays := range []int{1, 10} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("%d programs %d times", n, replays),
				protects: "a replay runs each recorded program once, in order, every time",
				fn:       func(t *fixture) { traceOf(t, n, replays, false) },
			})
		}
		cs = append(cs, testCase{
			name:     fmt.Sprintf("%d programs with runs between", n),
			protects: "replays and ordinary runs follow each other in order",
			fn:       func(t *fixture) { traceOf(t, n, 4, true) },
		})
	}
	for _, n := range []int{1, 3, 8} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("%d traces alive", n),
			protects: "several traces replay in any order without touching each other",
			fn:       func(t *fixture) { tracesAlive(t, n) },
		})
	}
	cs = slices.Concat(cs, captureCases(), paramCases(), debugCases(), traceFileCases())
	return append(cs, []testCase{
		{name: "capture runs nothing", protects: "what is recorded doesn't run, and the queue goes on as before", fn: captureRunsNothing},
		{name: "hundreds of replays", protects: "replays follow each other without waits, hundreds of times", fn: hundredsOfReplays},
		{name: "different programs", protects: "programs of all sizes follow each other around the kernel-config ring in a replay", fn: traceMixedSizes},
		{name: "long commands", protects: "a program whose commands span fetch entries can be recorded", fn: traceLongCommands},
		{name: "input of a replay", protects: "a replay reads what its buffers hold now, not what they held at the capture", fn: traceInputs},
		{name: "release gives memory back", protects: "after a release everything is allocated as before the capture", fn: traceRelease},
		{name: "released memory is used again", protects: "a new trace lies where a released one lay", fn: traceReuse},
		{name: "replay after release", protects: "a released trace isn't replayed, and not released again", fn: replayAfterRelease},
		{name: "failed capture", protects: "a capture that fails leaves nothing behind", fn: failedCapture},
		{name: "nothing recorded", protects: "an empty capture is ErrEmptyTrace", fn: emptyTrace},
		{name: "recorder after the end", protects: "a recorder that outlives its capture records nothing", fn: recorderAfterEnd},
		{name: "error names the place", protects: "a *CaptureError names the operation and the caller's line", fn: captureErrorPlace},
		{name: "closed program in a trace", protects: "a trace keeps the kernels of a program that was closed", fn: closedInTrace},
		{name: "freed buffer in a trace", protects: "memory that a trace writes isn't handed out before its release", fn: freedInTrace},
		{name: "circular buffers in a trace", protects: "memory of circular buffers that a trace uses isn't handed out", fn: circularInTrace},
		{name: "description", protects: "a trace's size, steps, extents and text agree", fn: traceDescription},
		{name: "concurrent use", protects: "a queue takes replays, runs and transfers from several goroutines", fn: concurrentUse},
		{name: "capture beside use", protects: "capturing doesn't disturb other users of the queue", fn: captureBesideUse},
		{name: "replays allocate nothing", alone: true, protects: "a replay allocates no memory on the host", fn: replayAllocates},
	}...)
}

// follow is a plain model of the words that mixProgram changes.
type follow struct {
	t     *fixture
	b     *reprise.Buffer
	words []uint32
}

func (t *fixture) follow() *follow {
	return &follow{t: t, b: t.perWorker(16), words: make([]uint32, t.grid().Size())}
}

// run is what a run of the mix program with a number does.
func (f *follow) run(number uint32, on chip.Range) {
	for c := range on.Cores() {
		i := f.t.workerIndex(c)
		f.words[i] = mixed(f.words[i], number, i)
	}
}

func (f *follow) check(what string) {
	f.t.Helper()
	f.t.wantWords(what, f.b, 0, func(c chip.Core) uint32 { return f.words[f.t.workerIndex(c)] })
}

func traceOf(t *fixture, n, replays int, between bool) {
	if t.device.Kind == target.Simulator {
		n, replays = min(n, 60), min(replays, 3)
	}
	f := t.follow()
	on := chip.Range{End: chip.Core{X: 3, Y: 2}}
	var xs []*reprise.Executable
	for i := range min(n, 5) {
		xs = append(xs, t.load(t.mixProgram(fmt.Sprint(i), on, f.b, uint32(i+1), 0)))
	}
	var seq []*reprise.Executable
	for i := range n {
		seq = append(seq, xs[i*3%len(xs)])
	}
	tr := t.capture("trace", seq...)
	for r := range replays {
		t.ok(tr.Replay(t.ctx))
		for i := range n {
			f.run(uint32(i*3%len(xs)+1), on)
		}
		if between {
			for k := range r + 1 {
				t.ok(t.rq.Run(t.ctx, xs[k%len(xs)]))
				f.run(uint32(k%len(xs)+1), on)
			}
		}
	}
	t.ok(t.rq.Wait(t.ctx))
	f.check("after all replays")
}

func tracesAlive(t *fixture, n int) {
	f := t.follow()
	on := t.grid()
	var traces []*reprise.Trace
	for i := range n {
		x := t.load(t.mixProgram(fmt.Sprint(i), on, f.b, uint32(100+i), 0))
		traces = append(traces, t.capture(fmt.Sprint(i), x, x))
	}
	for k := range 5 * n {
		i := k * k % n
		t.ok(traces[i].Replay(t.ctx))
		f.run(uint32(100+i), on)
		f.run(uint32(100+i), on)
	}
	t.ok(t.rq.Wait(t.ctx))
	f.check("all traces")
}

func captureRunsNothing(t *fixture) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 9, 0))
	t.ok(t.rq.Run(t.ctx, x))
	f.run(9, t.grid())
	tr := t.capture("t", x, x, x)
	t.ok(t.rq.Wait(t.ctx))
	f.check("after the capture")
	t.ok(t.rq.Run(t.ctx, x))
	f.run(9, t.grid())
	t.ok(t.rq.Wait(t.ctx))
	f.check("after a run after the capture")
	t.ok(tr.Release(t.ctx))
	t.runAndWait(x)
	f.run(9, t.grid())
	f.check("after a trace that never ran was released")
}

func hundredsOfReplays(t *fixture) {
	f := t.follow()
	on := chip.Range{End: chip.Core{X: 1, Y: 1}}
	x := t.load(t.mixProgram("x", on, f.b, 5, 0))
	tr := t.capture("t", x, x)
	n := t.size(t.more(1000, 50_000), 100)
	for range n {
		t.ok(tr.Replay(t.ctx))
		f.run(5, on)
		f.run(5, on)
	}
	t.ok(t.rq.Wait(t.ctx))
	f.check("after all replays")
}

func traceMixedSizes(t *fixture) {
	f := t.follow()
	var xs, seq []*reprise.Executable
	for i, n := range []int{0, 40_000, 1000, 30_000, 69_000, 5000, 20_000} {
		xs = append(xs, t.load(t.mixProgram(fmt.Sprint(n), t.grid(), f.b, uint32(i+1), n&^15)))
	}
	var numbers []uint32
	for i := range t.size(120, 20) {
		k := i * i % len(xs)
		seq = append(seq, xs[k])
		numbers = append(numbers, uint32(k+1))
	}
	tr := t.capture("t", seq...)
	for r := range 3 {
		t.ok(tr.Replay(t.ctx))
		for _, n := range numbers {
			f.run(n, t.grid())
		}
		t.ok(t.rq.Run(t.ctx, xs[r]))
		f.run(uint32(r+1), t.grid())
	}
	t.ok(t.rq.Wait(t.ctx))
	f.check("after three replays")
}

func traceLongCommands(t *fixture) {
	t.longTrace(func(tr *reprise.Trace) {
		t.ok(tr.Replay(t.ctx))
		t.ok(t.rq.Wait(t.ctx))
	})
}

// longTrace records two runs of a program whose commands are longer than a fetch entry may be, and checks what they stored
// when play has played them.
func (t *fixture) longTrace(play func(*reprise.Trace)) {
	t.Helper()
	b := t.perWorker(64 * len(processors()))
	prog := &reprise.Program{Name: "long", Buffers: []*reprise.Buffer{b}}
	for i, p := range processors() {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: p.String(), Image: t.kernel(kernels.Store), Processor: p,
			Cores: []chip.Range{t.grid()}, Common: []uint32{0},
			Args: func(c chip.Core) []uint32 {
				a := make([]uint32, 340)
				a[0], a[1], a[2], a[17] = b.Addr()+uint32(64*i), 16, uint32(t.workerIndex(c)), uint32(i)
				return a
			}})
	}
	x := t.load(prog)
	// Once arguments have changed, they all are among the commands.
	t.ok(x.SetArgs(processors()[0].String(), func(_ chip.Core, args []uint32) { args[339]++ }))
	if x.Commands().Bytes < 256<<10 {
		t.Fatalf("the commands have %d bytes: not more than an entry", x.Commands().Bytes)
	}
	play(t.capture("t", x, x))
	for i := range processors() {
		t.wantWords("first word", b, 16*i, func(c chip.Core) uint32 { return uint32(t.workerIndex(c)) })
		t.wantWords("last word", b, 16*i+15, func(chip.Core) uint32 { return uint32(i) })
	}
}

func traceInputs(t *fixture) {
	const size, pages = 512, 40
	in, out, room := t.buffer(allocator.DRAM, pages*size, size), t.buffer(allocator.DRAM, pages*size, size), t.perWorker(size)
	x := t.load(&reprise.Program{Name: "copy", Buffers: []*reprise.Buffer{in, out, room}, Kernels: []reprise.Kernel{{
		Name: "copy", Image: t.kernel(kernels.Copy), Processor: chip.NCRISC, Cores: []chip.Range{t.grid().End.Range()},
		Args: func(chip.Core) []uint32 {
			return []uint32{in.Addr(), out.Addr(), 0, pages, in.PageStride(), room.Addr()}
		},
	}}})
	tr := t.capture("copy", x)
	for i := range 5 {
		want := pattern(uint32(i), in.Size())
		t.ok(t.rq.Write(t.ctx, in, 0, want))
		t.ok(tr.Replay(t.ctx))
		t.same(fmt.Sprintf("replay %d", i), want, t.readAll(out))
	}
}

func traceRelease(t *fixture) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	before := t.allocated()
	for range 3 {
		tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
		t.ok(err)
		if t.allocated().trace <= before.trace {
			t.Error("a trace takes no memory")
		}
		t.ok(tr.Replay(t.ctx))
		f.run(5, t.grid())
		t.ok(tr.Release(t.ctx))
		if after := t.allocated(); after != before {
			t.Errorf("allocated before %v, after %v", before, after)
		}
	}
	f.check("after the releases")
}

func traceReuse(t *fixture) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	var places []uint64
	for range 3 {
		tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
		t.ok(err)
		places = append(places, tr.Parts()[0].Extents[0].Start)
		t.ok(tr.Replay(t.ctx))
		f.run(5, t.grid())
		t.ok(tr.Release(t.ctx))
	}
	if places[0] != places[1] || places[1] != places[2] {
		t.Errorf("traces were at %#x", places)
	}
	f.check("after the last")
}

func replayAfterRelease(t *fixture) {
	f := t.follow()
	tr := t.capture("t", t.load(t.mixProgram("x", t.grid(), f.b, 5, 0)))
	t.ok(tr.Release(t.ctx))
	err := tr.Replay(t.ctx)
	if !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("replay: error %v, want ErrReleased", err)
	}
	t.says(err, `reprise: replay trace "t": it has been released already`)
	if err := tr.Release(t.ctx); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("release: error %v, want ErrReleased", err)
	}
	t.ok(t.rq.Wait(t.ctx))
	f.check("nothing ran")
}

func failedCapture(t *fixture) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	before := t.allocated()
	mine := errors.New("a reason of the caller's")
	_, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
		if err := r.Run(x); err != nil {
			return err
		}
		return mine
	})
	if !errors.Is(err, mine) {
		t.Errorf("error %v, want the caller's", err)
	}
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
	t.runAndWait(x)
	f.run(5, t.grid())
	f.check("a run after it")
}

func emptyTrace(t *fixture) {
	before := t.allocated()
	if _, err := t.rq.Capture(t.ctx, "t", func(context.Context, *reprise.Recorder) error { return nil }); !errors.Is(err,
		reprise.ErrEmptyTrace) {
		t.Errorf("error %v, want ErrEmptyTrace", err)
	}
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
}

func recorderAfterEnd(t *fixture) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	var kept *reprise.Recorder
	tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error { kept = r; return r.Run(x) })
	t.ok(err)
	t.closing(tr.Release)
	steps := len(tr.Parts()[0].Steps)
	if err := kept.Run(x); !errors.Is(err, reprise.ErrCaptureEnded) {
		t.Errorf("error %v, want ErrCaptureEnded", err)
	}
	if len(tr.Parts()[0].Steps) != steps {
		t.Error("the trace has grown")
	}
	t.ok(tr.Replay(t.ctx))
	t.ok(t.rq.Wait(t.ctx))
	f.run(5, t.grid())
	f.check("the replay")
}

func captureErrorPlace(t *fixture) {
	x, err := t.dev.Load(t.ctx, &reprise.Program{Name: "gone", Kernels: []reprise.Kernel{{Name: "blank", Image: t.kernel(kernels.Blank),
		Processor: chip.BRISC, Cores: []chip.Range{t.grid()}}}})
	t.ok(err)
	t.ok(x.Release(t.ctx))
	_, err = t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	var c *reprise.CaptureError
	if !errors.As(err, &c) || !strings.HasSuffix(c.File, "hwtest/trace.go") || c.Line == 0 || !strings.Contains(c.Op, "gone") {
		t.Errorf("error %#v: %v", c, err)
	}
	// An error that the caller swallows ends the capture all the same.
	if _, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error { _ = r.Run(x); return nil }); !errors.Is(err,
		reprise.ErrReleased) {
		t.Errorf("a swallowed error: %v", err)
	}
}

func closedInTrace(t *fixture) {
	f := t.follow()
	x, err := t.dev.Load(t.ctx, t.mixProgram("x", t.grid(), f.b, 5, 8192))
	t.ok(err)
	tr := t.capture("t", x)
	t.ok(x.Release(t.ctx))
	// Whatever is allocated and loaded now must not lie where the closed program's kernels are.
	b := t.buffer(allocator.DRAM, 1<<20, 2048)
	t.ok(t.rq.Write(t.ctx, b, 0, pattern(3, b.Size())))
	y := t.load(t.mixProgram("y", t.grid(), f.b, 6, 8192))
	for range 3 {
		t.ok(tr.Replay(t.ctx))
		f.run(5, t.grid())
		t.ok(t.rq.Run(t.ctx, y))
		f.run(6, t.grid())
	}
	t.ok(t.rq.Wait(t.ctx))
	f.check("replays of a closed program")
}

func freedInTrace(t *fixture) {
	n := 64 * t.grid().Size()
	b, err := t.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: n, PageSize: 64, Name: "freed"})
	t.ok(err)
	x, err := t.dev.Load(t.ctx, t.storeProgram("x", t.grid(), b, 1))
	t.ok(err)
	tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	t.ok(err)
	t.ok(x.Release(t.ctx))
	t.ok(b.Release())
	var others []*reprise.Buffer
	for range 4 {
		o := t.buffer(allocator.L1, n, 64)
		if o.Addr() < b.Addr()+64 && b.Addr() < o.Addr()+64 {
			t.Errorf("a buffer at %#x overlaps the one at %#x that a trace writes", o.Addr(), b.Addr())
		}
		t.ok(t.rq.Write(t.ctx, o, 0, pattern(o.Addr(), n)))
		others = append(others, o)
	}
	t.ok(tr.Replay(t.ctx))
	for _, o := range others {
		t.same("another buffer after the replay", pattern(o.Addr(), n), t.readAll(o))
	}
	t.ok(tr.Release(t.ctx))
	if o := t.buffer(allocator.L1, n, 64); o.Addr() != b.Addr() {
		t.Errorf("after the release a buffer is at %#x, want %#x", o.Addr(), b.Addr())
	}
}

func circularInTrace(t *fixture) {
	b := t.perWorker(64)
	free := t.dev.Memory(allocator.L1).LargestHole
	prog := t.storeProgram("cb", t.grid(), b, 1)
	addCB(t, prog, 3, 65536, 2)
	x, err := t.dev.Load(t.ctx, prog)
	t.ok(err)
	tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	t.ok(err)
	t.ok(x.Release(t.ctx))
	if hole := t.dev.Memory(allocator.L1).LargestHole; hole > free-2*65536 {
		t.Errorf("%d B of L1 are free beside a trace with 128 KiB of circular buffers, %d B before", hole, free)
	}
	t.ok(tr.Release(t.ctx))
	if hole := t.dev.Memory(allocator.L1).LargestHole; hole != free {
		t.Errorf("%d B of L1 are free after the release, %d B before", hole, free)
	}
}

func traceDescription(t *fixture) {
	f := t.follow()
	x, y := t.load(t.mixProgram("first", t.grid(), f.b, 5, 0)), t.load(t.mixProgram("second", t.grid(), f.b, 6, 0))
	if x.Cores() != t.grid().Size() || x.Commands().Bytes <= 0 {
		t.Errorf("a program has %d cores and %d B of commands", x.Cores(), x.Commands().Bytes)
	}
	before := t.dev.Memory(allocator.Trace)
	tr := t.capture("two", x, y, x)
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
		if e.Bank != i || e.End <= e.Start || e.End > t.dev.DRAMBankSize() {
			t.Errorf("extent %+v", e)
		}
		total += int(e.End - e.Start)
	}
	if total != tr.Size() || tr.Size() < at {
		t.Errorf("extents have %d B, the trace %d B, its steps %d B", total, tr.Size(), at)
	}
	if m := t.dev.Memory(allocator.Trace); m.Extents != before.Extents+1 || (m.Allocated-before.Allocated)*uint64(m.Banks) < uint64(total) {
		t.Errorf("the banks hold %d B, the allocator has %+v, before %+v", total, m, before)
	}
	if n := tr.Parts()[0].ReplayBytes; n <= 0 || n > 512 {
		t.Errorf("a replay writes %d B", n)
	}
	var text bytes.Buffer
	t.ok(tr.Print(&text))
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if last := lines[len(lines)-1]; len(lines) < 10 || !strings.Contains(last, "EXEC_BUF_END") {
		t.Errorf("%d lines, the last is %q", len(lines), last)
	}
	for _, w := range []string{"WRITE_PACKED", "SEND_GO_SIGNAL", "WRITE_PACKED_LARGE", "EXEC_BUF_END"} {
		if !strings.Contains(text.String(), w) {
			t.Errorf("the text has no %s", w)
		}
	}
}

func concurrentUse(t *fixture) {
	// Additions of one number commute, so the result doesn't depend on the order of the goroutines.
	f := t.follow()
	on := chip.Range{End: chip.Core{X: 2, Y: 2}}
	x := t.load(t.mixProgram("x", on, f.b, 5, 0))
	tr := t.capture("t", x)
	n := t.size(40, 10)
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for g := range 4 {
		b := t.buffer(allocator.DRAM, 64*50, 64)
		wg.Go(func() {
			for i := range n {
				if g%2 == 0 {
					errs <- t.rq.Run(t.ctx, x)
				} else {
					errs <- tr.Replay(t.ctx)
				}
				want, got := pattern(uint32(100*g+i), b.Size()), make([]byte, b.Size())
				errs <- errors.Join(t.rq.Write(t.ctx, b, 0, want), t.rq.Read(t.ctx, b, 0, got))
				if d := difference(want, got); d != "" {
					errs <- fmt.Errorf("goroutine %d, round %d: %s", g, i, d)
				}
			}
		})
	}
	go func() { wg.Wait(); close(errs) }()
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	t.ok(t.rq.Wait(t.ctx))
	for range 4 * n {
		f.run(5, on)
	}
	f.check("all runs and replays")
}

func captureBesideUse(t *fixture) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	n := t.size(30, 6)
	done := make(chan error, 1)
	go func() {
		var err error
		for range n {
			err = errors.Join(err, t.rq.Run(t.ctx, x))
		}
		done <- err
	}()
	for i := range n {
		tr, err := t.rq.Capture(t.ctx, fmt.Sprint(i), func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
		t.ok(err)
		t.ok(tr.Release(t.ctx))
	}
	t.ok(<-done)
	t.ok(t.rq.Wait(t.ctx))
	for range n {
		f.run(5, t.grid())
	}
	f.check("runs beside captures")
}

func replayAllocates(t *fixture) {
	f := t.follow()
	on := t.grid().Start.Range()
	x := t.load(t.mixProgram("x", on, f.b, 5, 0))
	tr := t.capture("t", x)
	replay := func() {
		t.ok(tr.Replay(t.ctx))
		f.run(5, on)
	}
	replay()
	allocs := t.allocations(20, replay)
	// A simulator's connection and the checks of a strict emulator allocate.
	if !t.device.Slow() && allocs != 0 {
		t.Errorf("a replay allocates %v times", allocs)
	}
	t.ok(t.rq.Wait(t.ctx))
	f.check("all replays")
}

// allocations returns how often a function allocates on the heap. The counter is the whole process's, and an emulated
// device, which runs in it, may allocate while work is under way. So each of at most so many rounds calls the function once on a device
// at rest, on one processor, and the fewest of all rounds counts: what a function does every time is in every round.
func (t *fixture) allocations(rounds int, fn func()) uint64 {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fewest := ^uint64(0)
	for i := 0; i < rounds && fewest > 0; i++ {
		t.ok(t.rq.Wait(t.ctx))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		fn()
		runtime.ReadMemStats(&after)
		fewest = min(fewest, after.Mallocs-before.Mallocs)
	}
	return fewest
}

package hwtest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/mesh"
)

func meshRunCases() []testCase {
	return []testCase{
		{name: "one program everywhere", protects: "a program that is loaded on a mesh runs on every chip", fn: onMesh(meshProgram)},
		{name: "programs by range", protects: "chips run the program of their range, and those outside of all ranges none", fn: onMesh(meshRanges)},
		{name: "submesh runs alone", protects: "work in a submesh's queue runs on its chips only", fn: onMesh(meshSubmeshRuns)},
		{name: "events", protects: "an event of a mesh is done when it is done on every chip", fn: onMesh(meshEvents)},
		{name: "trace", protects: "one trace runs on all chips, which share one stream of commands", fn: onMesh(meshTrace)},
		{name: "trace on a part", protects: "a trace of a mesh can be replayed on some of its chips", fn: onMesh(meshTracePart)},
		{name: "trace parameters", protects: "a parameter of a mesh's trace changes on every chip", fn: onMesh(meshTraceParam)},
		{name: "trace release", protects: "releasing a mesh's trace frees its memory on all chips", fn: onMesh(meshTraceRelease)},
		{name: "submeshes at once", protects: "submeshes that are apart run different traces at the same time", fn: onMesh(meshSubmeshTraces)},
		{name: "traces in any order", protects: "traces of a mesh are replayed and released in any order", fn: onMesh(meshManyTraces)},
		{name: "skew", protects: "chips report by their own clocks how far apart they were", fn: onMesh(meshSkew)},
	}
}

func meshProgram(t *meshFixture) {
	_, out, x := t.setUp()
	t.ok(t.queue.Run(t.ctx, x))
	for _, c := range t.mesh.Chips() {
		t.is("out", c, out, counting(out.Size(), 101+100*t.ordinal(c)))
	}
}

func meshRanges(t *meshFixture) {
	in, out, _ := t.setUp()
	last := t.mesh.Shape().Coord(t.mesh.Size() - 1)
	part := t.adder(in, out, func(*mesh.Chip) uint32 { return 5 })
	part.Range = mesh.Range{Start: last, End: last}
	t.ok(t.queue.Run(t.ctx, t.loaded(part)))
	for i, c := range t.mesh.Chips() {
		want := make([]byte, out.Size())
		if i == t.mesh.Size()-1 {
			want = counting(out.Size(), 6)
		}
		t.is("out", c, out, want)
	}
}

func meshSubmeshRuns(t *meshFixture) {
	in, out, _ := t.setUp()
	first := t.mesh.Shape().Coord(0)
	sub, err := t.mesh.Submesh(mesh.Range{Start: first, End: first})
	t.ok(err)
	x, err := sub.Load(t.ctx, "add", t.adder(in, out, func(*mesh.Chip) uint32 { return 9 }))
	t.ok(err)
	t.later(x.Release)
	t.ok(sub.Queue(0).Run(t.ctx, x))
	t.ok(sub.Queue(0).Wait(t.ctx))
	for i, c := range t.mesh.Chips() {
		want := make([]byte, out.Size())
		if i == 0 {
			want = counting(out.Size(), 10)
		}
		t.is("out", c, out, want)
	}
}

func meshEvents(t *meshFixture) {
	_, out, x := t.setUp()
	e := t.mesh.NewEvent("e")
	t.ok(t.queue.Run(t.ctx, x))
	t.ok(t.queue.Record(t.ctx, e))
	t.ok(e.Wait(t.ctx))
	if done, err := e.Query(); err != nil || !done {
		t.Errorf("done %t, %v", done, err)
	}
	for _, c := range t.mesh.Chips() {
		t.is("out", c, out, counting(out.Size(), 101+100*t.ordinal(c)))
	}
}

func meshTrace(t *meshFixture) {
	in, out, _ := t.setUp()
	tr := t.recorded(t.loaded(t.adder(in, out, func(*mesh.Chip) uint32 { return 20 })))
	if n, _ := tr.Streams(); n != 1 {
		t.Errorf("%d streams of commands", n)
	}
	for i := range uint32(4) {
		t.ok(t.queue.Write(t.ctx, in, counting(in.Size(), i)))
		t.ok(tr.Replay(t.ctx))
	}
	for _, c := range t.mesh.Chips() {
		t.is("out", c, out, counting(out.Size(), 23))
	}
}

func meshTracePart(t *meshFixture) {
	_, out, x := t.setUp()
	tr := t.recorded(x)
	first := t.mesh.Shape().Coord(0)
	part := t.on(tr, mesh.Range{Start: first, End: first})
	t.ok(part.Replay(t.ctx))
	t.ok(t.queue.Wait(t.ctx))
	for i, c := range t.mesh.Chips() {
		want := make([]byte, out.Size())
		if i == 0 {
			want = counting(out.Size(), 101)
		}
		t.is("out", c, out, want)
	}
}

func meshTraceParam(t *meshFixture) {
	_, out, x := t.setUp()
	tr, err := t.queue.Capture(t.ctx, "trace", func(_ context.Context, r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.Param(x, "pages", reprise.Arg{Kernel: "reader", Index: 1}))
	})
	t.ok(err)
	t.ok(tr.Set("pages", 0))
	t.ok(tr.Replay(t.ctx))
	t.ok(t.queue.Wait(t.ctx))
	for _, c := range t.mesh.Chips() {
		t.is("out", c, out, counting(out.Size(), 101+100*t.ordinal(c)))
	}
	if err := tr.Set("none", 0); !errors.Is(err, reprise.ErrNoParam) {
		t.Errorf("no such parameter: %v", err)
	}
}

func meshTraceRelease(t *meshFixture) {
	_, _, x := t.setUp()
	var before []uint64
	for _, c := range t.mesh.Chips() {
		before = append(before, c.Device.MemoryFingerprint(allocator.DRAM))
	}
	tr := t.recorded(x, x)
	t.ok(tr.Replay(t.ctx))
	t.ok(tr.Release(t.ctx))
	for i, c := range t.mesh.Chips() {
		if c.Device.MemoryFingerprint(allocator.DRAM) != before[i] {
			t.Errorf("chip %v hasn't got its memory back", c.Coord)
		}
	}
}

func meshSubmeshTraces(t *meshFixture) {
	in, out, _ := t.setUp()
	one := make(mesh.Shape, len(t.mesh.Shape()))
	for i := range one {
		one[i] = 1
	}
	subs, err := t.mesh.Submeshes(one)
	t.ok(err)
	var traces []*reprise.Trace
	for i, sub := range subs {
		x, err := sub.Load(t.ctx, "add", t.adder(in, out, func(*mesh.Chip) uint32 { return uint32(50 + i) }))
		t.ok(err)
		t.later(x.Release)
		tr, err := sub.Queue(0).Capture(t.ctx, "sub", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
		t.ok(err)
		t.later(tr.Release)
		traces = append(traces, tr)
	}
	for range 3 {
		for _, tr := range traces {
			t.ok(tr.Replay(t.ctx))
		}
	}
	t.ok(t.queue.Wait(t.ctx))
	for i, c := range t.mesh.Chips() {
		t.is("out", c, out, counting(out.Size(), uint32(51+i)))
	}
}

func meshManyTraces(t *meshFixture) {
	in, out, _ := t.setUp()
	before := t.mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM)
	var traces []*reprise.Trace
	var xs []*mesh.Executable
	for i := range uint32(4) {
		xs = append(xs, t.loaded(t.adder(in, out, func(*mesh.Chip) uint32 { return 10 * i })))
		traces = append(traces, t.recorded(xs[i]))
	}
	for _, i := range []int{2, 0, 3, 1} {
		t.ok(traces[i].Replay(t.ctx))
		t.ok(t.queue.Wait(t.ctx))
		for _, c := range t.mesh.Chips() {
			t.is("out", c, out, counting(out.Size(), uint32(10*i+1)))
		}
		t.ok(traces[i].Release(t.ctx))
		t.ok(xs[i].Release(t.ctx))
	}
	t.ok(t.mesh.InStep(allocator.DRAM))
	if t.mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM) != before {
		t.Error("memory is left")
	}
}

func meshSkew(t *meshFixture) {
	_, _, x := t.setUp()
	tr := t.recorded(x)
	s, err := t.mesh.Skew(t.ctx, tr)
	t.ok(err)
	if len(s.Chips) != t.mesh.Size() || s.Spread < 0 || s.Spread > time.Minute {
		t.Errorf("%d chips within %v", len(s.Chips), s.Spread)
	}
	first := slices.ContainsFunc(s.Chips, func(c mesh.ChipTime) bool { return c.After == 0 })
	if !first {
		t.Errorf("no chip was the first: %+v", s.Chips)
	}
}

package machines

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/mesh"
)

func runCases() rig.Table {
	var cs rig.Table
	cs.Add("one program everywhere", "a program that is loaded on a mesh runs on every chip", OnMesh(meshProgram))
	cs.Add("programs by range", "chips run the program of their range, and those outside of all ranges none", OnMesh(meshRanges))
	cs.Add("submesh runs alone", "work in a submesh's queue runs on its chips only", OnMesh(submeshRuns))
	cs.Add("events", "an event of a mesh is done when it is done on every chip", OnMesh(meshEvents))
	cs.Add("trace", "one trace runs on all chips, which share one stream of commands", OnMesh(meshTrace))
	cs.Add("trace on a part", "a trace of a mesh can be replayed on some of its chips", OnMesh(tracePart))
	cs.Add("trace parameters", "a parameter of a mesh's trace changes on every chip", OnMesh(traceParam))
	cs.Add("trace release", "releasing a mesh's trace frees its memory on all chips", OnMesh(traceRelease))
	cs.Add("submeshes at once", "submeshes that are apart run different traces at the same time", OnMesh(submeshTraces))
	cs.Add("traces in any order", "traces of a mesh are replayed and released in any order", OnMesh(manyTraces))
	cs.Add("skew", "chips report by their own clocks how far apart they were", OnMesh(meshSkew))
	return cs
}

func meshProgram(t *T) {
	_, out, x := t.setUp()
	t.Start(x)
	t.Are("out", out, func(i uint32) uint32 { return 101 + 100*i })
}

func meshRanges(t *T) {
	in, out, _ := t.setUp()
	last := t.Mesh.Shape().Coord(t.Mesh.Size() - 1)
	part := t.adder(in, out, func(*mesh.Chip) uint32 { return 5 })
	part.Range = mesh.Range{Start: last, End: last}
	t.Start(t.Loaded(part))
	for i, c := range t.Mesh.Chips() {
		want := make([]byte, out.Size())
		if i == t.Mesh.Size()-1 {
			want = Counting(out.Size(), 6)
		}
		t.Is("out", c, out, want)
	}
}

func submeshRuns(t *T) {
	in, out, _ := t.setUp()
	first := t.Mesh.Shape().Coord(0)
	sub, err := t.Mesh.Submesh(mesh.Range{Start: first, End: first})
	t.OK(err)
	x, err := sub.Load(t.Ctx, "add", t.adder(in, out, func(*mesh.Chip) uint32 { return 9 }))
	t.OK(err)
	t.Later(x.Release)
	t.OK(sub.Queue(0).Run(t.Ctx, x))
	t.OK(sub.Queue(0).Wait(t.Ctx))
	for i, c := range t.Mesh.Chips() {
		want := make([]byte, out.Size())
		if i == 0 {
			want = Counting(out.Size(), 10)
		}
		t.Is("out", c, out, want)
	}
}

func meshEvents(t *T) {
	_, out, x := t.setUp()
	e := t.Mesh.NewEvent("e")
	t.Start(x)
	t.OK(t.Queue.Record(t.Ctx, e))
	t.WaitFor(e)
	if done, err := e.Query(); err != nil || !done {
		t.Errorf("done %t, %v", done, err)
	}
	t.Are("out", out, func(i uint32) uint32 { return 101 + 100*i })
}

func meshTrace(t *T) {
	in, out, _ := t.setUp()
	tr := t.recorded(t.Loaded(t.adder(in, out, func(*mesh.Chip) uint32 { return 20 })))
	if n, _ := tr.Streams(); n != 1 {
		t.Errorf("%d streams of commands", n)
	}
	for i := range uint32(4) {
		t.Write(in, Counting(in.Size(), i))
		t.Replay(tr)
	}
	t.Are("out", out, func(uint32) uint32 { return 23 })
}

func tracePart(t *T) {
	_, out, x := t.setUp()
	tr := t.recorded(x)
	first := t.Mesh.Shape().Coord(0)
	part := t.On(tr, mesh.Range{Start: first, End: first})
	t.Replay(part)
	t.Wait()
	for i, c := range t.Mesh.Chips() {
		want := make([]byte, out.Size())
		if i == 0 {
			want = Counting(out.Size(), 101)
		}
		t.Is("out", c, out, want)
	}
}

func traceParam(t *T) {
	_, out, x := t.setUp()
	tr, err := t.Record("trace", func(r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.Param(x, "pages", reprise.Arg{Kernel: "reader", Index: 1}))
	})
	t.OK(err)
	t.OK(tr.Set("pages", 0))
	t.Replay(tr)
	t.Wait()
	t.Are("out", out, func(i uint32) uint32 { return 101 + 100*i })
	t.Fails("no such parameter", tr.Set("none", 0), reprise.ErrNoParam)
}

func traceRelease(t *T) {
	_, _, x := t.setUp()
	var before []uint64
	for _, c := range t.Mesh.Chips() {
		before = append(before, c.Device.MemoryFingerprint(allocator.DRAM))
	}
	tr := t.recorded(x, x)
	t.Replay(tr)
	t.Release(tr)
	for i, c := range t.Mesh.Chips() {
		if c.Device.MemoryFingerprint(allocator.DRAM) != before[i] {
			t.Errorf("chip %v hasn't got its memory back", c.Coord)
		}
	}
}

func submeshTraces(t *T) {
	in, out, _ := t.setUp()
	one := make(mesh.Shape, len(t.Mesh.Shape()))
	for i := range one {
		one[i] = 1
	}
	subs, err := t.Mesh.Submeshes(one)
	t.OK(err)
	var traces []*reprise.Trace
	for i, sub := range subs {
		x, err := sub.Load(t.Ctx, "add", t.adder(in, out, func(*mesh.Chip) uint32 { return uint32(50 + i) }))
		t.OK(err)
		t.Later(x.Release)
		tr, err := sub.Queue(0).Capture(t.Ctx, "sub", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
		t.OK(err)
		t.Later(tr.Release)
		traces = append(traces, tr)
	}
	for range 3 {
		for _, tr := range traces {
			t.Replay(tr)
		}
	}
	t.Wait()
	for i, c := range t.Mesh.Chips() {
		t.Is("out", c, out, Counting(out.Size(), uint32(51+i)))
	}
}

func manyTraces(t *T) {
	in, out, _ := t.setUp()
	before := t.Mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM)
	var traces []*reprise.Trace
	var xs []*mesh.Executable
	for i := range uint32(4) {
		xs = append(xs, t.Loaded(t.adder(in, out, func(*mesh.Chip) uint32 { return 10 * i })))
		traces = append(traces, t.recorded(xs[i]))
	}
	for _, i := range []int{2, 0, 3, 1} {
		t.Replay(traces[i])
		t.Wait()
		for _, c := range t.Mesh.Chips() {
			t.Is("out", c, out, Counting(out.Size(), uint32(10*i+1)))
		}
		t.Release(traces[i])
		t.Release(xs[i])
	}
	t.OK(t.Mesh.InStep(allocator.DRAM))
	if t.Mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM) != before {
		t.Error("memory is left")
	}
}

func meshSkew(t *T) {
	_, _, x := t.setUp()
	tr := t.recorded(x)
	s, err := t.Mesh.Skew(t.Ctx, tr)
	t.OK(err)
	if len(s.Chips) != t.Mesh.Size() || s.Spread < 0 || s.Spread > time.Minute {
		t.Errorf("%d chips within %v", len(s.Chips), s.Spread)
	}
	first := slices.ContainsFunc(s.Chips, func(c mesh.ChipTime) bool { return c.After == 0 })
	if !first {
		t.Errorf("no chip was the first: %+v", s.Chips)
	}
}

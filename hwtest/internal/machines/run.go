// Package machines has the cases of several chips as one.
package machines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/mesh"
)

func runCases() rig.Table {
	var cs rig.Table
	add := func(name, protects string, run func(*T)) { cs.Add(name, protects, OnMesh(run)) }
	add("programs by range", "chips run the program of their range, and those outside of all ranges none", meshRanges)
	add("events", "an event of a mesh is done when it is done on every chip", meshEvents)
	add("trace", "one trace runs on all chips, which share one stream of commands", meshTrace)
	add("trace parameters", "a parameter of a mesh's trace changes on every chip", traceParam)
	add("submeshes at once", "submeshes that are apart run different traces at the same time", submeshTraces)
	add("traces in any order", "traces of a mesh are replayed and released in any order", manyTraces)
	add("skew", "chips report by their own clocks how far apart they were", meshSkew)
	return cs
}

func meshRanges(t *T) {
	in, out, _ := t.setUp()
	last := t.Mesh.Chips()[t.Mesh.Size()-1]
	part := t.adder(in, out, Add(5))
	part.Range = Only(last)
	t.Start(t.Loaded(part))
	t.onlyOn(last, out, 6)
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
	tr := t.recorded(t.Loaded(t.adder(in, out, Add(20))))
	if n, _ := tr.Streams(); n != 1 {
		t.Errorf("%d streams of commands", n)
	}
	for i := range uint32(4) {
		t.Write(in, Counting(in.Size(), i))
		t.Replay(tr)
	}
	t.Are("out", out, func(uint32) uint32 { return 23 })
}

func traceParam(t *T) {
	_, out, x := t.setUp()
	tr := t.Trace("trace", func(r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.Param(x, "pages", reprise.Arg{Kernel: "reader", Index: 1}))
	})
	t.OK(tr.Set("pages", 0))
	t.Replay(tr)
	t.Wait()
	t.Are("out", out, func(i uint32) uint32 { return 101 + 100*i })
	t.Fails("no such parameter", tr.Set("none", 0), reprise.ErrNoParam)
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
		x, err := sub.Load(t.Ctx, "add", t.adder(in, out, Add(uint32(50+i))))
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
		xs = append(xs, t.Loaded(t.adder(in, out, Add(10*i))))
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

func queueCases() rig.Table {
	var cs rig.Table
	add := func(name, protects string, run func(*T)) { cs.Add(name, protects, OnMesh(run)) }
	add("replays in a row", "no replay of a trace is lost on any chip, however many are in flight", meshReplays)
	add("buffer parameter", "a buffer parameter of a mesh's trace changes on every chip", bufferParam)
	add("several callers", "goroutines that use a mesh at the same time don't disturb each other", meshCallers)
	add("parts in turn", "parts of a trace are replayed chip by chip, in any order", partsInTurn)
	cs.Add("events between queues", "a queue of a mesh waits for another's event on every chip", OnOwnMesh(twoQueues, rig.QueueOptions(false)...))
	cs.Add("traces on two queues", "traces of different queues run on every chip at the same time", OnOwnMesh(twoTraces, rig.QueueOptions(true)...))
	cs.Add("trace over two queues", "one trace over two queues of each chip keeps its order between them", OnOwnMesh(spanning, rig.QueueOptions(true)...))
	return cs
}

// Add is a number for Adder that is the same on all chips.
func Add(n uint32) func(*mesh.Chip) uint32 { return func(*mesh.Chip) uint32 { return n } }

func meshReplays(t *T) {
	b := t.Pages("sum")
	t.Write(b, Counting(b.Size(), 0))
	tr := t.recorded(t.Loaded(t.adder(b, b, Add(1))))
	n := t.Size(50, 20)
	for range n {
		t.Replay(tr)
	}
	t.Are("sum", b, func(uint32) uint32 { return uint32(n) })
	t.Release(tr)
}

func bufferParam(t *T) {
	in, out, x := t.setUp()
	other := t.Pages("other")
	t.Write(other, Counting(other.Size(), 5000))
	tr := t.Trace("trace", func(r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.ParamBuffer(x, "in", in, reprise.Arg{Kernel: "reader", Index: 0}))
	})
	for _, from := range []struct {
		b     *mesh.Buffer
		first uint32
	}{{other, 5000}, {in, 1}, {other, 5000}} {
		t.OK(tr.SetBuffer("in", from.b.All()...))
		t.Replay(tr)
		t.Are(from.b.Name(), out, func(i uint32) uint32 { return from.first + 100*(1+i) })
	}
	t.Release(tr)
}

func meshCallers(t *T) {
	const callers = 4
	bufs := make([]*mesh.Buffer, callers)
	for i := range bufs {
		bufs[i] = t.Pages(fmt.Sprintf("caller %d", i))
	}
	errs := make([]error, callers)
	rounds := t.Size(10, 2)
	var wg sync.WaitGroup
	for i, b := range bufs {
		wg.Go(func() {
			for round := range rounds {
				want := Counting(b.Size(), uint32(1000*i+round))
				err := t.Queue.Write(t.Ctx, b, want)
				for _, c := range t.Mesh.Chips() {
					got := make([]byte, b.Size())
					if err = errors.Join(err, t.Queue.On(c).Read(t.Ctx, b.On(c), 0, got)); err == nil && !bytes.Equal(got, want) {
						err = fmt.Errorf("chip %v has % x, want % x", c.Coord, got[:8], want[:8])
					}
				}
				if err != nil {
					errs[i] = fmt.Errorf("caller %d, round %d: %w", i, round, err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.OK(errs...)
}

func partsInTurn(t *T) {
	b := t.Pages("sum")
	t.Write(b, Counting(b.Size(), 0))
	tr := t.recorded(t.Loaded(t.adder(b, b, Add(1))))
	chips := t.Mesh.Chips()
	for round := range 3 {
		for k := range chips {
			c := chips[(k*3+round)%len(chips)]
			if len(chips)%3 == 0 {
				c = chips[(k+round)%len(chips)]
			}
			part := t.On(tr, Only(c))
			t.Replay(part)
		}
	}
	for _, c := range chips {
		t.Is("sum", c, b, Counting(b.Size(), 3))
	}
	t.Release(tr)
}

func twoQueues(t *T) {
	in, mid, out := t.Pages("in"), t.Pages("mid"), t.Pages("out")
	first, second := t.Loaded(t.adder(in, mid, Add(10))), t.Loaded(t.adder(mid, out, Add(100)))
	q := [2]*mesh.Queue{t.Mesh.Queue(0), t.Mesh.Queue(1)}
	done, read := t.Mesh.NewEvent("done"), t.Mesh.NewEvent("read")
	for round := range uint32(4) {
		t.OK(q[0].Write(t.Ctx, in, Counting(in.Size(), round)))
		if round > 0 {
			t.OK(q[0].WaitEvent(t.Ctx, read))
		}
		t.OK(q[0].Run(t.Ctx, first), q[0].Record(t.Ctx, done))
		t.OK(q[1].WaitEvent(t.Ctx, done), q[1].Run(t.Ctx, second), q[1].Record(t.Ctx, read))
		t.WaitFor(read)
		for _, c := range t.Mesh.Chips() {
			got := t.T.ReadOn(q[1].On(c), out.On(c))
			if want := Counting(out.Size(), round+110); !bytes.Equal(got, want) {
				t.Errorf("round %d: chip %v has % x, want % x", round, c.Coord, got[:8], want[:8])
			}
		}
	}
}

func (t *T) corner(q int) chip.Core {
	return t.Mesh.Queue(q).On(t.Mesh.Chips()[0]).Workers().Start
}

func twoTraces(t *T) {
	var bufs [2]*mesh.Buffer
	var traces [2]*reprise.Trace
	for i := range bufs {
		b := t.Pages(fmt.Sprintf("queue %d", i))
		t.OK(t.Mesh.Queue(i).Write(t.Ctx, b, Counting(b.Size(), 0)))
		x := t.Loaded(t.AdderAt(t.corner(i), b, b, Add(uint32(i+1))))
		var err error
		traces[i], err = t.Mesh.Queue(i).Capture(t.Ctx, "own", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
		t.OK(err)
		bufs[i] = b
	}
	for range 10 {
		for _, tr := range traces {
			t.Replay(tr)
		}
	}
	t.OK(t.Mesh.Queue(1).Wait(t.Ctx))
	for i, b := range bufs {
		for _, c := range t.Mesh.Chips() {
			t.Is(b.Name(), c, b, Counting(b.Size(), uint32(10*(i+1))))
		}
	}
}

func spanning(t *T) {
	in, mid, out := t.Pages("in"), t.Pages("mid"), t.Pages("out")
	qs := []*mesh.Queue{t.Mesh.Queue(0), t.Mesh.Queue(1)}
	capture := func(name string, record func(rs []*mesh.Recorder) error) (*reprise.Trace, error) {
		return qs[0].Capture(t.Ctx, name, func(_ context.Context, r *mesh.Recorder) error {
			return record([]*mesh.Recorder{r, r.Queue(qs[1])})
		}, qs[1])
	}
	first, second := t.Loaded(t.AdderAt(t.corner(0), in, mid, Add(10))), t.Loaded(t.AdderAt(t.corner(1), mid, out, t.Ordinal))
	done := t.Mesh.NewEvent("done")
	record := func(rs []*mesh.Recorder) error {
		return errors.Join(rs[0].Run(first), rs[0].Record(done), rs[1].WaitEvent(done), rs[1].Run(second))
	}
	before := t.Mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM)
	tr, err := capture("both", record)
	t.OK(err)
	for round := range uint32(4) {
		t.OK(qs[0].Write(t.Ctx, in, Counting(in.Size(), 50*round)))
		t.Replay(tr)
		t.WaitFor(qs[1])
		t.Are("out", out, func(i uint32) uint32 { return 50*round + 10 + i })
	}
	t.Release(tr)
	t.Fails("released twice", tr.Release(t.Ctx), reprise.ErrReleased)
	t.Fails("replayed although it is released", tr.Replay(t.Ctx), reprise.ErrReleased)
	if t.Mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM) != before {
		t.Error("memory is left")
	}
	if _, err := qs[0].Capture(t.Ctx, "one", func(_ context.Context, r *mesh.Recorder) error {
		return errors.Join(r.Run(first), r.Record(done))
	}); !errors.Is(err, reprise.ErrInCapture) {
		t.Errorf("an edge in a trace on one queue of each chip: %v", err)
	}
	if _, err := qs[0].Capture(t.Ctx, "twice", func(context.Context, *mesh.Recorder) error { return nil }, qs[0]); err == nil {
		t.Error("a queue is in a capture twice")
	}
	part := errors.New("not today")
	if _, err := capture("given up", func([]*mesh.Recorder) error { return part }); !errors.Is(err, part) {
		t.Errorf("given up: %v", err)
	}
	if t.Mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM) != before {
		t.Error("memory is left of a capture that was given up")
	}
	t.OK(t.Mesh.InStep(allocator.DRAM))
}

// Cases are the cases of several chips as one.
func Cases() rig.Table {
	return slices.Concat(meshCases(), runCases(), queueCases(), collectiveCases(),
		orderCases(), faultCases(), hangCases())
}

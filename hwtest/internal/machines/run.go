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
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/mesh"
)

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
	done, err := e.Query()
	t.OK(err)
	rig.Equal(t, done, true, "done")
	t.Are("out", out, setUpSum)
}

func meshTrace(t *T) {
	in, out, _ := t.setUp()
	tr := t.recorded(t.Loaded(t.adder(in, out, Add(20))))
	n, _ := tr.Streams()
	rig.Equal(t, n, 1, "streams of commands")
	for i := range uint32(4) {
		t.count(in, i)
		t.Replay(tr)
	}
	t.AllCount("out", out, 23)
}

func traceParam(t *T) {
	_, out, x := t.setUp()
	tr := t.Trace("trace", func(r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.Param(x, "pages", reprise.Arg{Kernel: "reader", Index: 1}))
	})
	t.OK(tr.Set("pages", 0))
	t.Replay(tr)
	t.Wait()
	t.Are("out", out, setUpSum)
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
		x := t.Prepared(sub.Load(t.Ctx, "add", t.adder(in, out, Add(uint32(50+i)))))
		traces = append(traces, t.by(sub.Queue(0)).recorded(x))
	}
	for range 3 {
		for _, tr := range traces {
			t.Replay(tr)
		}
	}
	t.Wait()
	t.Are("out", out, func(i uint32) uint32 { return 51 + i })
}

func manyTraces(t *T) {
	in, out, _ := t.setUp()
	before := t.fingerprint()
	var traces []*reprise.Trace
	var xs []*mesh.Executable
	for i := range uint32(4) {
		xs = append(xs, t.Loaded(t.adder(in, out, Add(10*i))))
		traces = append(traces, t.recorded(xs[i]))
	}
	for _, i := range []int{2, 0, 3, 1} {
		t.Replay(traces[i])
		t.Wait()
		t.AllCount("out", out, uint32(10*i+1))
		t.Release(traces[i])
		t.Release(xs[i])
	}
	t.nothingLeft(before)
}

func (t *T) fingerprint() uint64 { return t.Mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM) }

// nothingLeft checks that the chips are in step, and as much is allocated as before.
func (t *T) nothingLeft(before uint64) {
	t.OK(t.Mesh.InStep(allocator.DRAM))
	rig.Equal(t, t.fingerprint(), before, "fingerprint of what is allocated")
}

func meshSkew(t *T) {
	_, _, x := t.setUp()
	tr := t.recorded(x)
	s, err := t.Mesh.Skew(t.Ctx, tr)
	t.OK(err)
	if len(s.Chips) != t.Mesh.Size() || s.Spread < 0 || s.Spread > time.Minute {
		t.Errorf("%d chips within %v", len(s.Chips), s.Spread)
	}
	if !slices.ContainsFunc(s.Chips, func(c mesh.ChipTime) bool { return c.After == 0 }) {
		t.Errorf("no chip was the first: %+v", s.Chips)
	}
}

// Add is a number for Adder that is the same on all chips.
func Add(n uint32) func(*mesh.Chip) uint32 { return func(*mesh.Chip) uint32 { return n } }

func meshReplays(t *T) {
	b, tr := t.added()
	n := t.Size(50, 20)
	for range n {
		t.Replay(tr)
	}
	t.AllCount("sum", b, uint32(n))
	t.Release(tr)
}

func bufferParam(t *T) {
	in, out, x := t.setUp()
	other := t.Pages("other")
	t.count(other, 5000)
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
	b, tr := t.added()
	chips := t.Mesh.Chips()
	for round := range 3 {
		for k := range chips {
			c := chips[(k*3+round)%len(chips)]
			if len(chips)%3 == 0 {
				c = chips[(k+round)%len(chips)]
			}
			t.Replay(t.On(tr, Only(c)))
		}
	}
	t.AllCount("sum", b, 3)
	t.Release(tr)
}

func twoQueues(t *T) {
	in, mid, out := t.Pages("in"), t.Pages("mid"), t.Pages("out")
	first, second := t.Loaded(t.adder(in, mid, Add(10))), t.Loaded(t.adder(mid, out, Add(100)))
	q := [2]*mesh.Queue{t.Mesh.Queue(0), t.Mesh.Queue(1)}
	done, read := t.Mesh.NewEvent("done"), t.Mesh.NewEvent("read")
	for round := range uint32(4) {
		t.by(q[0]).count(in, round)
		if round > 0 {
			t.OK(q[0].WaitEvent(t.Ctx, read))
		}
		t.OK(q[0].Run(t.Ctx, first), q[0].Record(t.Ctx, done))
		t.OK(q[1].WaitEvent(t.Ctx, done), q[1].Run(t.Ctx, second), q[1].Record(t.Ctx, read))
		t.WaitFor(read)
		t.by(q[1]).AllCount(fmt.Sprintf("round %d", round), out, round+110)
	}
}

func (t *T) corner(q int) chip.Core {
	return t.Mesh.Queue(q).On(t.Mesh.Chips()[0]).Workers().Start
}

func twoTraces(t *T) {
	var bufs [2]*mesh.Buffer
	var traces [2]*reprise.Trace
	for i := range bufs {
		b, on := t.Pages(fmt.Sprintf("queue %d", i)), t.by(t.Mesh.Queue(i))
		on.count(b, 0)
		traces[i] = on.recorded(t.Loaded(t.AdderAt(t.corner(i), b, b, Add(uint32(i+1)))))
		bufs[i] = b
	}
	for range 10 {
		for _, tr := range traces {
			t.Replay(tr)
		}
	}
	t.WaitFor(t.Mesh.Queue(1))
	for i, b := range bufs {
		t.AllCount(b.Name(), b, uint32(10*(i+1)))
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
	before := t.fingerprint()
	tr, err := capture("both", record)
	t.OK(err)
	for round := range uint32(4) {
		t.count(in, 50*round)
		t.Replay(tr)
		t.WaitFor(qs[1])
		t.Are("out", out, func(i uint32) uint32 { return 50*round + 10 + i })
	}
	t.Release(tr)
	t.AllFail(reprise.ErrReleased, map[string]error{"released twice": tr.Release(t.Ctx), "replayed after its release": tr.Replay(t.Ctx)})
	t.nothingLeft(before)
	_, err = t.Record("one", func(r *mesh.Recorder) error { return errors.Join(r.Run(first), r.Record(done)) })
	t.Fails("an edge in a trace on one queue of each chip", err, reprise.ErrInCapture)
	if _, err := qs[0].Capture(t.Ctx, "twice", func(context.Context, *mesh.Recorder) error { return nil }, qs[0]); err == nil {
		t.Error("a queue is in a capture twice")
	}
	part := errors.New("not today")
	t.Fails("given up", rig.Error(capture("given up", func([]*mesh.Recorder) error { return part })), part)
	t.nothingLeft(before)
}

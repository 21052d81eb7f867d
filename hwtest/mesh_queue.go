package hwtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/mesh"
)

func meshQueueCases() []testCase {
	return []testCase{
		{name: "replays in a row", protects: "no replay of a trace is lost on any chip, however many are in flight", fn: onMesh(meshReplays)},
		{name: "buffer parameter", protects: "a buffer parameter of a mesh's trace changes on every chip", fn: onMesh(meshBufferParam)},
		{name: "several callers", protects: "goroutines that use a mesh at the same time don't disturb each other", fn: onMesh(meshCallers)},
		{name: "parts in turn", protects: "parts of a trace are replayed chip by chip, in any order", fn: onMesh(meshPartsInTurn)},
		{name: "events between queues", protects: "a queue of a mesh waits for another's event on every chip", fn: onOwnMesh(meshTwoQueues, queueOptions(false)...)},
		{name: "traces on two queues", protects: "traces of different queues run on every chip at the same time", fn: onOwnMesh(meshTwoTraces, queueOptions(true)...)},
		{name: "trace over two queues", protects: "one trace over two queues of each chip keeps its order between them", fn: onOwnMesh(meshSpanning, queueOptions(true)...)},
	}
}

func add(n uint32) func(*mesh.Chip) uint32 { return func(*mesh.Chip) uint32 { return n } }

func meshReplays(t *meshFixture) {
	b := t.pages("sum")
	t.ok(t.queue.Write(t.ctx, b, counting(b.Size(), 0)))
	tr := t.recorded(t.loaded(t.adder(b, b, add(1))))
	n := t.size(50, 20)
	for range n {
		t.ok(tr.Replay(t.ctx))
	}
	for _, c := range t.mesh.Chips() {
		t.is("sum", c, b, counting(b.Size(), uint32(n)))
	}
	t.ok(tr.Release(t.ctx))
}

func meshBufferParam(t *meshFixture) {
	in, out, x := t.setUp()
	other := t.pages("other")
	t.ok(t.queue.Write(t.ctx, other, counting(other.Size(), 5000)))
	tr, err := t.queue.Capture(t.ctx, "trace", func(_ context.Context, r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.ParamBuffer(x, "in", in, reprise.Arg{Kernel: "reader", Index: 0}))
	})
	t.ok(err)
	for _, from := range []struct {
		b     *mesh.Buffer
		first uint32
	}{{other, 5000}, {in, 1}, {other, 5000}} {
		t.ok(tr.SetBuffer("in", from.b.All()...))
		t.ok(tr.Replay(t.ctx))
		for _, c := range t.mesh.Chips() {
			t.is(from.b.Name(), c, out, counting(out.Size(), from.first+100*(1+t.ordinal(c))))
		}
	}
	t.ok(tr.Release(t.ctx))
}

func meshCallers(t *meshFixture) {
	const callers = 4
	bufs := make([]*mesh.Buffer, callers)
	for i := range bufs {
		bufs[i] = t.pages(fmt.Sprintf("caller %d", i))
	}
	errs := make([]error, callers)
	rounds := t.size(10, 2)
	var wg sync.WaitGroup
	for i, b := range bufs {
		wg.Go(func() {
			for round := range rounds {
				want := counting(b.Size(), uint32(1000*i+round))
				err := t.queue.Write(t.ctx, b, want)
				for _, c := range t.mesh.Chips() {
					got := make([]byte, b.Size())
					if err = errors.Join(err, t.queue.On(c).Read(t.ctx, b.On(c), 0, got)); err == nil && !bytes.Equal(got, want) {
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
	t.ok(errors.Join(errs...))
}

func meshPartsInTurn(t *meshFixture) {
	b := t.pages("sum")
	t.ok(t.queue.Write(t.ctx, b, counting(b.Size(), 0)))
	tr := t.recorded(t.loaded(t.adder(b, b, add(1))))
	chips := t.mesh.Chips()
	for round := range 3 {
		for k := range chips {
			c := chips[(k*3+round)%len(chips)]
			if len(chips)%3 == 0 {
				c = chips[(k+round)%len(chips)]
			}
			part := t.on(tr, mesh.Range{Start: c.Coord, End: c.Coord})
			t.ok(part.Replay(t.ctx))
		}
	}
	for _, c := range chips {
		t.is("sum", c, b, counting(b.Size(), 3))
	}
	t.ok(tr.Release(t.ctx))
}

func meshTwoQueues(t *meshFixture) {
	in, mid, out := t.pages("in"), t.pages("mid"), t.pages("out")
	first, second := t.loaded(t.adder(in, mid, add(10))), t.loaded(t.adder(mid, out, add(100)))
	q := [2]*mesh.Queue{t.mesh.Queue(0), t.mesh.Queue(1)}
	done, read := t.mesh.NewEvent("done"), t.mesh.NewEvent("read")
	for round := range uint32(4) {
		t.ok(q[0].Write(t.ctx, in, counting(in.Size(), round)))
		if round > 0 {
			t.ok(q[0].WaitEvent(t.ctx, read))
		}
		t.ok(q[0].Run(t.ctx, first))
		t.ok(q[0].Record(t.ctx, done))
		t.ok(q[1].WaitEvent(t.ctx, done))
		t.ok(q[1].Run(t.ctx, second))
		t.ok(q[1].Record(t.ctx, read))
		t.ok(read.Wait(t.ctx))
		for _, c := range t.mesh.Chips() {
			got := make([]byte, out.Size())
			t.ok(q[1].On(c).Read(t.ctx, out.On(c), 0, got))
			if want := counting(out.Size(), round+110); !bytes.Equal(got, want) {
				t.Errorf("round %d: chip %v has % x, want % x", round, c.Coord, got[:8], want[:8])
			}
		}
	}
}

// corner is the first worker of a queue.
func (t *meshFixture) corner(q int) chip.Core {
	return t.mesh.Queue(q).On(t.mesh.Chips()[0]).Workers().Start
}

func meshTwoTraces(t *meshFixture) {
	var bufs [2]*mesh.Buffer
	var traces [2]*reprise.Trace
	for i := range bufs {
		b := t.pages(fmt.Sprintf("queue %d", i))
		t.ok(t.mesh.Queue(i).Write(t.ctx, b, counting(b.Size(), 0)))
		x := t.loaded(t.adderAt(t.corner(i), b, b, add(uint32(i+1))))
		var err error
		traces[i], err = t.mesh.Queue(i).Capture(t.ctx, "own", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
		t.ok(err)
		bufs[i] = b
	}
	for range 10 {
		for _, tr := range traces {
			t.ok(tr.Replay(t.ctx))
		}
	}
	t.ok(t.mesh.Queue(1).Wait(t.ctx))
	for i, b := range bufs {
		for _, c := range t.mesh.Chips() {
			t.is(b.Name(), c, b, counting(b.Size(), uint32(10*(i+1))))
		}
	}
}

func meshSpanning(t *meshFixture) {
	in, mid, out := t.pages("in"), t.pages("mid"), t.pages("out")
	qs := []*mesh.Queue{t.mesh.Queue(0), t.mesh.Queue(1)}
	capture := func(name string, record func(rs []*mesh.Recorder) error) (*reprise.Trace, error) {
		return qs[0].Capture(t.ctx, name, func(_ context.Context, r *mesh.Recorder) error {
			return record([]*mesh.Recorder{r, r.Queue(qs[1])})
		}, qs[1])
	}
	first, second := t.loaded(t.adderAt(t.corner(0), in, mid, add(10))), t.loaded(t.adderAt(t.corner(1), mid, out, t.ordinal))
	done := t.mesh.NewEvent("done")
	record := func(rs []*mesh.Recorder) error {
		return errors.Join(rs[0].Run(first), rs[0].Record(done), rs[1].WaitEvent(done), rs[1].Run(second))
	}
	before := t.mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM)
	tr, err := capture("both", record)
	t.ok(err)
	for round := range uint32(4) {
		t.ok(qs[0].Write(t.ctx, in, counting(in.Size(), 50*round)))
		t.ok(tr.Replay(t.ctx))
		t.ok(qs[1].Wait(t.ctx))
		for _, c := range t.mesh.Chips() {
			t.is("out", c, out, counting(out.Size(), 50*round+10+t.ordinal(c)))
		}
	}
	t.ok(tr.Release(t.ctx))
	if err := tr.Release(t.ctx); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("released twice: %v", err)
	}
	if err := tr.Replay(t.ctx); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("replayed although it is released: %v", err)
	}
	if t.mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM) != before {
		t.Error("memory is left")
	}
	if _, err := qs[0].Capture(t.ctx, "one", func(_ context.Context, r *mesh.Recorder) error {
		return errors.Join(r.Run(first), r.Record(done))
	}); !errors.Is(err, reprise.ErrInCapture) {
		t.Errorf("an edge in a trace on one queue of each chip: %v", err)
	}
	if _, err := qs[0].Capture(t.ctx, "twice", func(context.Context, *mesh.Recorder) error { return nil }, qs[0]); err == nil {
		t.Error("a queue is in a capture twice")
	}
	part := errors.New("not today")
	if _, err := capture("given up", func([]*mesh.Recorder) error { return part }); !errors.Is(err, part) {
		t.Errorf("given up: %v", err)
	}
	if t.mesh.Chips()[0].Device.MemoryFingerprint(allocator.DRAM) != before {
		t.Error("memory is left of a capture that was given up")
	}
	t.ok(t.mesh.InStep(allocator.DRAM))
}

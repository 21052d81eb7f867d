package hwtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func moreMeshCases() []testCase {
	return []testCase{
		{name: "L1 buffer", protects: "a buffer in L1 has one address on all chips and holds what is written", fn: onMesh(meshL1)},
		{name: "reshaped", protects: "the same chips in another shape are the same memory and queues", fn: onMesh(meshReshaped)},
		{name: "submeshes at once", protects: "submeshes that are apart run different traces at the same time", fn: onMesh(meshSubmeshTraces)},
		{name: "traces in any order", protects: "traces of a mesh are replayed and released in any order", fn: onMesh(meshManyTraces)},
		{name: "capture refuses", protects: "what can't be part of a trace is refused on a mesh as on a chip", fn: onMesh(meshCaptureRefuses)},
		{name: "empty trace", protects: "a trace in which nothing was recorded on any chip is refused", fn: onMesh(meshEmptyTrace)},
		{name: "foreign objects", protects: "objects of one mesh are refused by another, also by its submesh", fn: onMesh(meshForeign)},
		{name: "closed", protects: "a mesh that is closed refuses everything, and closing it again does nothing", fn: onMesh(meshClosed)},
		{name: "skew", protects: "chips say by their own clocks how far apart they were", fn: onMesh(meshSkew)},
		{name: "all pairs", protects: "a buffer reaches each chip from each other one", fn: onMesh(meshAllPairs)},
		{name: "pages of every size", protects: "collectives carry pages from 4 B to 4 KiB, whatever their alignment", fn: onMesh(meshPageSizes)},
		{name: "uneven slices", protects: "slices that can't be equal are gathered and scattered all the same", fn: onMesh(meshUneven)},
		{name: "collectives in a row", protects: "collectives that follow one another in a queue keep their numbers", fn: onMesh(meshRow)},
		{name: "scatter and gather", protects: "a reduce_scatter and an all_gather behind it are an all_reduce", fn: onMesh(meshScatterGather)},
		{name: "float32 sum", protects: "sums of float32 have the bits that IEEE 754 gives in the documented order", fn: onMesh(meshFloatSum)},
		{name: "bfloat16 sum", protects: "sums of bfloat16 are rounded to nearest, ties to even, at each step", fn: onMesh(meshBFloatSum)},
		{name: "links prepared anew", protects: "links that are prepared again start from nothing", fn: onMesh(meshAnew)},
		{name: "late and double packets", needs: needEmulator, protects: "packets that a link delays or repeats change no result", fn: onMesh(meshBadLinks)},
		{name: "link down", needs: needEmulator, protects: "a collective over a link that is down hangs with the state of all chips, and goes on once they are recovered", fn: onMesh(meshLinkDown)},
	}
}

func meshL1(t *meshFixture) {
	b, err := t.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: reprise.L1, Size: 1024, PageSize: 32, Name: "l1"}})
	t.ok(err)
	for i, c := range t.mesh.Chips() {
		if b.On(c).Addr() != b.Addr() {
			t.Errorf("chip %v has it at %#x, the first at %#x", c.Coord, b.On(c).Addr(), b.Addr())
		}
		t.put(c, b, uint32(1000*i))
	}
	for i, c := range t.mesh.Chips() {
		t.is("L1", c, b, counting(1024, uint32(1000*i)))
	}
}

func meshReshaped(t *meshFixture) {
	line, err := t.mesh.Reshape(mesh.Shape{t.mesh.Size()})
	t.ok(err)
	b := t.pages("b")
	for i, c := range line.Chips() {
		t.put(c, b, uint32(100*i))
	}
	for i, c := range line.Chips() {
		t.is("reshaped", c, b, counting(b.Size(), uint32(100*i)))
	}
	other, err := line.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: reprise.DRAM, Size: b.Size(), PageSize: 64, Name: "other"}})
	t.ok(err)
	if other.Addr() == b.Addr() {
		t.Errorf("both shapes gave %#x away", b.Addr())
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
	var traces []*mesh.Trace
	for i, sub := range subs {
		x, err := sub.Load(t.ctx, "add", t.adder(in, out, func(*mesh.Chip) uint32 { return uint32(50 + i) }))
		t.ok(err)
		tr, err := sub.Queue(0).Capture(t.ctx, "sub", func(r *mesh.Recorder) error { return r.Run(x) })
		t.ok(err)
		traces = append(traces, tr)
	}
	for range 3 {
		for _, tr := range traces {
			t.ok(tr.Replay(t.ctx))
		}
	}
	t.ok(t.queue.Finish(t.ctx))
	for i, c := range t.mesh.Chips() {
		t.is("out", c, out, counting(out.Size(), uint32(51+i)))
	}
}

func meshManyTraces(t *meshFixture) {
	in, out, _ := t.setUp()
	before := t.mesh.Chips()[0].Device.MemoryFingerprint(reprise.DRAM)
	var traces []*mesh.Trace
	var xs []*mesh.Executable
	for i := range uint32(4) {
		xs = append(xs, t.loaded(t.adder(in, out, func(*mesh.Chip) uint32 { return 10 * i })))
		traces = append(traces, t.recorded(xs[i]))
	}
	for _, i := range []int{2, 0, 3, 1} {
		t.ok(traces[i].Replay(t.ctx))
		t.ok(t.queue.Finish(t.ctx))
		for _, c := range t.mesh.Chips() {
			t.is("out", c, out, counting(out.Size(), uint32(10*i+1)))
		}
		t.ok(traces[i].Release(t.ctx))
		t.ok(xs[i].Close(t.ctx))
	}
	t.ok(t.mesh.InStep(reprise.DRAM))
	if t.mesh.Chips()[0].Device.MemoryFingerprint(reprise.DRAM) != before {
		t.Error("memory is left")
	}
}

func meshCaptureRefuses(t *meshFixture) {
	in, _, x := t.setUp()
	for what, f := range map[string]func() error{
		"write":  func() error { return t.queue.Write(t.ctx, in, make([]byte, in.Size())) },
		"finish": func() error { return t.queue.Finish(t.ctx) },
		"run":    func() error { return t.queue.Run(t.ctx, x) },
	} {
		_, err := t.queue.Capture(t.ctx, "refused", func(r *mesh.Recorder) error {
			_ = f()
			return r.Run(x)
		})
		if !errors.Is(err, reprise.ErrInCapture) {
			t.Errorf("%s inside a capture: %v", what, err)
		}
	}
	t.ok(t.queue.Run(t.ctx, x))
	t.ok(t.queue.Finish(t.ctx))
}

func meshEmptyTrace(t *meshFixture) {
	if _, err := t.queue.Capture(t.ctx, "nothing", func(*mesh.Recorder) error { return nil }); !errors.Is(err, reprise.ErrEmptyTrace) {
		t.Errorf("nothing was recorded: %v", err)
	}
}

func meshForeign(t *meshFixture) {
	in, _, x := t.setUp()
	sub, err := t.mesh.Submesh(mesh.Range{})
	t.ok(err)
	for what, err := range map[string]error{
		"write": sub.Queue(0).Write(t.ctx, in, make([]byte, in.Size())),
		"run":   sub.Queue(0).Run(t.ctx, x),
		"event": sub.Queue(0).Record(t.ctx, t.mesh.NewEvent("e")),
	} {
		if !errors.Is(err, mesh.ErrForeign) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func meshClosed(t *meshFixture) {
	in, _, x := t.setUp()
	t.ok(t.mesh.Close())
	t.ok(t.mesh.Close())
	for what, err := range map[string]error{
		"write": t.queue.Write(t.ctx, in, make([]byte, in.Size())), "run": t.queue.Run(t.ctx, x), "finish": t.queue.Finish(t.ctx),
	} {
		if !errors.Is(err, mesh.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func meshSkew(t *meshFixture) {
	_, _, x := t.setUp()
	tr := t.recorded(x)
	s, err := tr.Skew(t.ctx)
	t.ok(err)
	if len(s.Chips) != t.mesh.Size() || s.Spread < 0 || s.Spread > time.Minute {
		t.Errorf("%d chips within %v", len(s.Chips), s.Spread)
	}
	first := slices.ContainsFunc(s.Chips, func(c mesh.ChipTime) bool { return c.After == 0 })
	if !first {
		t.Errorf("no chip was the first: %+v", s.Chips)
	}
}

func meshAllPairs(t *meshFixture) {
	b := t.linked()
	line := t.links.Line()
	for i, from := range line {
		for j, to := range line {
			if i == j {
				continue
			}
			for k, c := range line {
				t.put(c, b, uint32(1000*k))
			}
			x, err := t.links.Send(t.ctx, b, from, to)
			t.carryOut(x, err)
			t.ok(x.Close(t.ctx))
			for k, c := range line {
				want := k
				if k == j {
					want = i
				}
				t.is("send", c, b, counting(b.Size(), uint32(1000*want)))
			}
		}
	}
}

// ofPages is a buffer of pages of some size that has words of its own on every chip of the line.
func (t *meshFixture) ofPages(n, page int) *mesh.Buffer {
	t.Helper()
	b, err := t.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: reprise.DRAM, Size: n * page, PageSize: page, Name: "pages"}})
	t.ok(err)
	for i, c := range t.links.Line() {
		t.put(c, b, 1000*uint32(i+1))
	}
	return b
}

func meshPageSizes(t *meshFixture) {
	t.linked()
	for _, page := range []int{4, 12, 16, 100, 1024, 4096} {
		b := t.ofPages(2, page)
		x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
		t.carryOut(x, err)
		want := t.sums(b.Size())
		for _, c := range t.links.Line() {
			got := make([]byte, b.Size())
			t.ok(t.queue.On(c).Read(t.ctx, b.On(c), 0, got))
			if !bytes.Equal(got, want) {
				t.Errorf("pages of %d B: chip %v has another sum", page, c.Coord)
			}
		}
	}
}

func meshUneven(t *meshFixture) {
	t.linked()
	for _, pages := range []int{1, 3, 2*t.mesh.Size() + 1} {
		b := t.ofPages(pages, 64)
		x, err := t.links.ReduceScatter(t.ctx, b, mesh.SumInt32)
		t.carryOut(x, err)
		want := t.sums(b.Size())
		for _, c := range t.links.Line() {
			first, count := t.links.Slice(b, c)
			got := make([]byte, 64*count)
			t.ok(t.queue.On(c).Read(t.ctx, b.On(c), 64*first, got))
			if !bytes.Equal(got, want[64*first:64*(first+count)]) {
				t.Errorf("%d pages: chip %v has another slice", pages, c.Coord)
			}
		}
	}
}

func meshRow(t *meshFixture) {
	b := t.linked()
	x, err := t.links.AllReduce(t.ctx, b, mesh.MaxInt32)
	t.ok(err)
	for range 5 {
		t.ok(t.queue.Run(t.ctx, x))
		t.ok(t.queue.Run(t.ctx, t.links.Barrier()))
	}
	t.ok(t.queue.Finish(t.ctx))
	for _, c := range t.links.Line() {
		t.is("maximum", c, b, counting(b.Size(), 1000*uint32(t.mesh.Size())))
	}
}

func meshScatterGather(t *meshFixture) {
	b := t.linked()
	scatter, err := t.links.ReduceScatter(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	gather, err := t.links.AllGather(t.ctx, b)
	t.ok(err)
	tr := t.recorded(scatter, gather)
	t.ok(tr.Replay(t.ctx))
	t.ok(t.queue.Finish(t.ctx))
	for _, c := range t.links.Line() {
		t.is("sum", c, b, t.sums(b.Size()))
	}
}

// floats checks an all_reduce of words that value gives to each chip, in pages whose number no count of chips divides, so
// that the order is that of the line.
func (t *meshFixture) floats(how mesh.Combine, value func(chip, word int) uint32, sum func(a, b uint32) uint32) {
	t.Helper()
	t.linked()
	b := t.ofPages(1, 256)
	line := t.links.Line()
	var want []byte
	for w := range b.Size() / 4 {
		v := value(0, w)
		for i := 1; i < len(line); i++ {
			v = sum(v, value(i, w))
		}
		want = binary.LittleEndian.AppendUint32(want, v)
	}
	for i, c := range line {
		var p []byte
		for w := range b.Size() / 4 {
			p = binary.LittleEndian.AppendUint32(p, value(i, w))
		}
		t.ok(t.queue.On(c).Write(t.ctx, b.On(c), 0, p))
	}
	x, err := t.links.AllReduce(t.ctx, b, how)
	t.carryOut(x, err)
	for _, c := range line {
		t.is("sum", c, b, want)
	}
}

// anyFloat is a float32 of any size and sign.
func anyFloat(chip, word int) float32 {
	x := float64((word*2654435761+chip*40503)%10007) - 5000
	return float32(x * math.Pow(2, float64((word+3*chip)%40-20)))
}

func meshFloatSum(t *meshFixture) {
	t.floats(mesh.SumFloat32, func(c, w int) uint32 { return math.Float32bits(anyFloat(c, w)) }, func(a, b uint32) uint32 {
		return math.Float32bits(math.Float32frombits(a) + math.Float32frombits(b))
	})
}

func meshBFloatSum(t *meshFixture) {
	narrow := func(f float32) uint32 {
		v := math.Float32bits(f)
		return (v + 0x7FFF + v>>16&1) >> 16
	}
	half := func(a, b uint32) uint32 { return narrow(math.Float32frombits(a) + math.Float32frombits(b)) }
	t.floats(mesh.SumBFloat16, func(c, w int) uint32 { return narrow(anyFloat(c, 2*w)) | narrow(anyFloat(c, 2*w+1))<<16 }, func(a, b uint32) uint32 {
		return half(a<<16, b<<16) | half(a&0xFFFF0000, b&0xFFFF0000)<<16
	})
}

func meshAnew(t *meshFixture) {
	for range 3 {
		b := t.linked()
		x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
		t.carryOut(x, err)
		for _, c := range t.links.Line() {
			t.is("sum", c, b, t.sums(b.Size()))
		}
		t.ok(t.links.Close(t.ctx))
	}
}

// everyLink does something with every link of the machine.
func (t *meshFixture) everyLink(do func(m *sim.Machine, chip, channel int) error) {
	t.Helper()
	for _, l := range t.machine.Emulated.Spec().Links {
		t.ok(do(t.machine.Emulated, l.Chip, l.Channel))
	}
}

func meshBadLinks(t *meshFixture) {
	b := t.linked()
	t.everyLink(func(m *sim.Machine, chip, channel int) error {
		at := fmt.Sprintf("%d:%d", chip, channel)
		return errors.Join(m.Inject("link-delay="+at+"/3"), m.Inject("link-duplicate="+at+"/2"))
	})
	x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.carryOut(x, err)
	for _, c := range t.links.Line() {
		t.is("sum", c, b, t.sums(b.Size()))
	}
}

func meshLinkDown(t *meshFixture) {
	// A mesh of its own, which gives up soon.
	t.ok(t.mesh.Close())
	hang := 400 * time.Millisecond
	if t.device.Slow() {
		hang = 5 * time.Second
	}
	m, err := mesh.Open(t.ctx, mesh.Cards(t.machine.Cards...), t.mesh.Shape(), mesh.WithDevice(reprise.WithHangTimeout(hang)))
	t.ok(err)
	defer m.Close()
	t.mesh, t.queue = m, m.Queue(0)
	b := t.linked()
	x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	t.ok(t.queue.Finish(t.ctx))
	t.everyLink(func(m *sim.Machine, chip, channel int) error { return m.SetLink(chip, channel, false) })
	t.ok(t.queue.Run(t.ctx, x))
	err = t.queue.Finish(t.ctx)
	var e *mesh.Error
	var he *reprise.HangError
	if !errors.As(err, &e) || len(e.Chips) != m.Size() || !errors.As(err, &he) {
		t.Errorf("all links are down: %v", err)
	}
	t.everyLink(func(m *sim.Machine, chip, channel int) error { return m.SetLink(chip, channel, true) })
	for _, c := range m.Chips() {
		t.ok(c.Device.Recover(t.ctx))
	}
	b = t.linked()
	x, err = t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.carryOut(x, err)
	for _, c := range t.links.Line() {
		t.is("sum", c, b, t.sums(b.Size()))
	}
}

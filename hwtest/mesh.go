package hwtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
)

// onMesh gives a case the chips of its machine.
func onMesh(fn func(*meshFixture)) func(*fixture) {
	return func(t *fixture) { fn(t.machine()) }
}

func meshCases() []testCase {
	return []testCase{
		{name: "neighbours are linked", protects: "places of a mesh next to each other are chips that a link joins", fn: onMesh(meshNeighbours)},
		{name: "one address", protects: "what is allocated on a mesh has one address on all chips, which stay in step", fn: onMesh(meshOneAddress)},
		{name: "submeshes share memory", protects: "a submesh and its parent are never given the same memory", fn: onMesh(meshSubmeshMemory)},
		{name: "replicated buffer", protects: "a write of a replicated buffer reaches every chip", fn: onMesh(meshReplicated)},
		{name: "sharded tensor", protects: "a tensor that is spread over the chips comes back as it was, and each chip has its part", fn: onMesh(meshTensor)},
		{name: "one program everywhere", protects: "a program that is loaded on a mesh runs on every chip", fn: onMesh(meshProgram)},
		{name: "programs by range", protects: "chips run the program of their range, and those outside of all ranges none", fn: onMesh(meshRanges)},
		{name: "submesh runs alone", protects: "what is put into a submesh's queue runs on its chips only", fn: onMesh(meshSubmeshRuns)},
		{name: "events", protects: "an event of a mesh is done when it is done on every chip", fn: onMesh(meshEvents)},
		{name: "trace", protects: "one trace runs on all chips, which share one stream of commands", fn: onMesh(meshTrace)},
		{name: "trace on a part", protects: "a trace of a mesh can be replayed on some of its chips", fn: onMesh(meshTracePart)},
		{name: "trace parameters", protects: "a parameter of a mesh's trace changes on every chip", fn: onMesh(meshTraceParam)},
		{name: "trace release", protects: "releasing a mesh's trace gives the memory back on all chips", fn: onMesh(meshTraceRelease)},
		{name: "barrier", protects: "a barrier ends on every chip, again and again", fn: onMesh(meshBarrier)},
		{name: "broadcast", protects: "a broadcast from each chip reaches all others", fn: onMesh(meshBroadcast)},
		{name: "point to point", protects: "a chip's buffer reaches another chip and none in between", fn: onMesh(meshSend)},
		{name: "all_gather", protects: "after an all_gather every chip has every slice", fn: onMesh(meshAllGather)},
		{name: "reduce_scatter", protects: "after a reduce_scatter each chip has its slice's sum", fn: onMesh(meshReduceScatter)},
		{name: "all_reduce", protects: "after an all_reduce every chip has the sum", fn: onMesh(meshAllReduce)},
		{name: "all_reduce maximum", protects: "after an all_reduce of maxima every chip has the largest of each", fn: onMesh(meshAllReduceMax)},
		{name: "layer with all_reduce", protects: "partial results and their sum over the chips replay as one trace", fn: onMesh(meshLayer)},
		{name: "card lost", needs: needEmulator, protects: "when a card goes one error says so of every chip, and the others replay on", fn: onMesh(meshCardLost)},
	}
}

// meshFixture is a mesh that a case has for itself.
type meshFixture struct {
	*fixture
	machine *target.Linked
	mesh    *mesh.Mesh
	queue   *mesh.Queue
	links   *mesh.Links // of those that ask for them
}

// machine opens a mesh: of the device's kind of emulator, or of all cards of the vendor's library.
func (t *fixture) machine() *meshFixture {
	t.Helper()
	spec, shape := chip.QuietBox(), mesh.Shape{2, 2}
	if t.device.Arch == chip.Wormhole {
		spec = chip.T3000() // whose chips with PCI interfaces are a square
	}
	m, err := t.device.Linked(spec)
	t.ok(err)
	if m == nil {
		t.Skip("needs a machine of several chips: an emulator, or a build of the vendor's simulator with several")
	}
	t.Cleanup(func() { _ = m.Close() })
	if n := len(m.Cards); n < shape.Size() {
		shape = mesh.Shape{1, n}
	}
	o := mesh.WithDevice(reprise.WithHangTimeout(t.patience()))
	f := &meshFixture{fixture: t, machine: m}
	f.mesh, err = mesh.Open(t.ctx, mesh.Cards(m.Cards...), shape, o)
	t.ok(err)
	t.Cleanup(func() { _ = f.mesh.Close() })
	f.queue = f.mesh.Queue(0)
	return f
}

const meshPages = 4

// pages is a buffer of a few pages of 64 B on every chip.
func (t *meshFixture) pages(name string) *mesh.Buffer {
	t.Helper()
	b, err := t.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: reprise.DRAM, Size: 64 * meshPages, PageSize: 64, Name: name}})
	t.ok(err)
	return b
}

// put fills a chip's buffer with words that count up from first.
func (t *meshFixture) put(c *mesh.Chip, b *mesh.Buffer, first uint32) {
	t.Helper()
	t.ok(t.queue.On(c).Write(t.ctx, b.On(c), 0, counting(b.On(c).Size(), first)))
}

func counting(n int, first uint32) []byte {
	var p []byte
	for i := range uint32(n / 4) {
		p = binary.LittleEndian.AppendUint32(p, first+i)
	}
	return p
}

// is checks a chip's buffer.
func (t *meshFixture) is(what string, c *mesh.Chip, b *mesh.Buffer, want []byte) {
	t.Helper()
	got := make([]byte, b.On(c).Size())
	t.ok(t.queue.On(c).Read(t.ctx, b.On(c), 0, got))
	if !bytes.Equal(got, want) {
		t.Errorf("%s: chip %v has % x, want % x", what, c.Coord, got[:16], want[:16])
	}
}

// adder adds a number, which may depend on the chip, to what is in a buffer.
func (t *meshFixture) adder(in, out *mesh.Buffer, add func(*mesh.Chip) uint32) mesh.Part {
	t.Helper()
	const from, to = 0, 16
	cores := []reprise.Range{reprise.Single(1, 1)}
	args := func(a ...uint32) func(reprise.Core) []uint32 { return func(reprise.Core) []uint32 { return a } }
	image := func(name string) *kernels.Image {
		im, err := kernels.Prebuilt(t.mesh.Chips()[0].Device.Arch(), name)
		t.ok(err)
		return im
	}
	read, sum, write := image(kernels.CopyReader), image(kernels.Add), image(kernels.CopyWriter)
	return mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		return &reprise.Program{
			Name: "add",
			Kernels: []reprise.Kernel{
				{Name: "reader", Image: read, Processor: reprise.BRISC, Cores: cores, Args: args(in.Addr(), 0, meshPages, 64, from)},
				{Name: "add", Image: sum, Processor: reprise.TRISC0, Cores: cores, Args: args(from, to, meshPages, add(c))},
				{Name: "writer", Image: write, Processor: reprise.NCRISC, Cores: cores, Args: args(out.Addr(), 0, meshPages, 64, to)},
			},
			CircularBuffers: []reprise.CircularBuffer{{Index: from, Cores: cores, PageSize: 64, Pages: 2}, {Index: to, Cores: cores, PageSize: 64, Pages: 2}},
			Buffers:         []*reprise.Buffer{in.On(c), out.On(c)},
		}, nil
	}}
}

// ordinal is a number of a chip.
func (t *meshFixture) ordinal(c *mesh.Chip) uint32 {
	i, _ := t.mesh.Shape().Index(c.Coord)
	return uint32(i)
}

func (t *meshFixture) loaded(parts ...mesh.Part) *mesh.Executable {
	t.Helper()
	x, err := t.mesh.Load(t.ctx, "add", parts...)
	t.ok(err)
	return x
}

// setUp makes buffers, data in the first one and a program that adds 100 times the chip's number and one.
func (t *meshFixture) setUp() (in, out *mesh.Buffer, x *mesh.Executable) {
	t.Helper()
	in, out = t.pages("in"), t.pages("out")
	t.ok(t.queue.Write(t.ctx, in, counting(in.Size(), 1)))
	t.ok(t.queue.Write(t.ctx, out, make([]byte, out.Size())))
	return in, out, t.loaded(t.adder(in, out, func(c *mesh.Chip) uint32 { return 100 * (1 + t.ordinal(c)) }))
}

func (t *meshFixture) recorded(xs ...*mesh.Executable) *mesh.Trace {
	t.Helper()
	tr, err := t.queue.Capture(t.ctx, "trace", func(r *mesh.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
	t.ok(err)
	return tr
}

func meshNeighbours(t *meshFixture) {
	s := t.mesh.Shape()
	for _, c := range t.mesh.Chips() {
		for a := range s {
			next := append(mesh.Coord{}, c.Coord...)
			if next[a]++; next[a] < s[a] && !t.mesh.Linked(c.Coord, next) {
				t.Errorf("%v and %v aren't linked", c.Coord, next)
			}
		}
	}
}

func meshOneAddress(t *meshFixture) {
	for _, k := range []reprise.Kind{reprise.DRAM, reprise.L1} {
		for i := range 5 {
			b, err := t.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: k, Size: 64 << i, PageSize: 64, Name: "b"}})
			t.ok(err)
			for _, c := range t.mesh.Chips() {
				if b.On(c).Addr() != b.Addr() {
					t.Errorf("chip %v has it at %#x, the first at %#x", c.Coord, b.On(c).Addr(), b.Addr())
				}
			}
			t.ok(t.mesh.InStep(k))
		}
	}
}

func meshSubmeshMemory(t *meshFixture) {
	sub, err := t.mesh.Submesh(mesh.Range{Start: t.mesh.Shape().Coord(0), End: t.mesh.Shape().Coord(0)})
	t.ok(err)
	c := mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: reprise.DRAM, Size: 64, PageSize: 64, Name: "sub"}}
	one, err := sub.NewBuffer(c)
	t.ok(err)
	all, err := t.mesh.NewBuffer(c)
	t.ok(err)
	if one.Addr() == all.Addr() {
		t.Errorf("both are at %#x", one.Addr())
	}
	if t.mesh.InStep(reprise.DRAM) == nil {
		t.Error("chips with different buffers are in step")
	}
	t.ok(errors.Join(one.Free(), all.Free()))
	t.ok(t.mesh.InStep(reprise.DRAM))
}

func meshReplicated(t *meshFixture) {
	b := t.pages("b")
	t.ok(t.queue.Write(t.ctx, b, counting(b.Size(), 7)))
	for _, c := range t.mesh.Chips() {
		t.is("replicated", c, b, counting(b.Size(), 7))
	}
}

func meshTensor(t *meshFixture) {
	s := t.mesh.Shape()
	b, err := t.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: reprise.DRAM, PageSize: 64, Name: "t"}, Tensor: []int{2 * s[0], 16 * s[1]}, Unit: 4})
	t.ok(err)
	data := counting(b.Size(), 0)
	t.ok(t.queue.Write(t.ctx, b, data))
	got := make([]byte, b.Size())
	t.ok(t.queue.Read(t.ctx, b, got))
	if !bytes.Equal(got, data) {
		t.Error("it comes back changed")
	}
	for _, c := range t.mesh.Chips() {
		row := uint32(16 * s[1])
		first := uint32(2*c.Coord[0])*row + uint32(16*c.Coord[1])
		t.is("part", c, b, append(counting(64, first), counting(64, first+row)...))
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
	t.ok(sub.Queue(0).Run(t.ctx, x))
	t.ok(sub.Queue(0).Finish(t.ctx))
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
	t.ok(e.Synchronize(t.ctx))
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
	part, err := tr.Part(mesh.Range{Start: first, End: first})
	t.ok(err)
	t.ok(part.Replay(t.ctx))
	t.ok(t.queue.Finish(t.ctx))
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
	tr, err := t.queue.Capture(t.ctx, "trace", func(r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.Param(x, "pages", reprise.Arg{Kernel: "reader", Index: 1}))
	})
	t.ok(err)
	t.ok(tr.Set("pages", 0))
	t.ok(tr.Replay(t.ctx))
	t.ok(t.queue.Finish(t.ctx))
	for _, c := range t.mesh.Chips() {
		t.is("out", c, out, counting(out.Size(), 101+100*t.ordinal(c)))
	}
	if err := tr.Set("none", 0); !errors.Is(err, reprise.ErrNoParam) {
		t.Errorf("no such parameter: %v", err)
	}
}

func meshTraceRelease(t *meshFixture) {
	_, _, x := t.setUp()
	before := t.mesh.Chips()[0].Device.MemoryFingerprint(reprise.DRAM)
	tr := t.recorded(x, x)
	t.ok(tr.Replay(t.ctx))
	t.ok(tr.Release(t.ctx))
	for _, c := range t.mesh.Chips() {
		if c.Device.MemoryFingerprint(reprise.DRAM) != before {
			t.Errorf("chip %v hasn't got its memory back", c.Coord)
		}
	}
}

// linked prepares the links, and a buffer that has other data on every chip.
func (t *meshFixture) linked() *mesh.Buffer {
	t.Helper()
	var err error
	t.links, err = t.mesh.NewLinks(t.ctx, reprise.Core{X: 2, Y: 2})
	t.ok(err)
	b := t.pages("data")
	for i, c := range t.links.Line() {
		t.put(c, b, 1000*uint32(i+1))
	}
	return b
}

func (t *meshFixture) carryOut(x *mesh.Executable, err error) {
	t.Helper()
	t.ok(err)
	t.ok(t.queue.Run(t.ctx, x))
	t.ok(t.queue.Finish(t.ctx))
}

// sums is what all chips' data add up to.
func (t *meshFixture) sums(n int) []byte {
	var p []byte
	chips := uint32(t.mesh.Size())
	for i := range uint32(n / 4) {
		p = binary.LittleEndian.AppendUint32(p, 1000*chips*(chips+1)/2+chips*i)
	}
	return p
}

func meshBarrier(t *meshFixture) {
	t.linked()
	for range 5 {
		t.ok(t.queue.Run(t.ctx, t.links.Barrier()))
	}
	t.ok(t.queue.Finish(t.ctx))
}

func meshBroadcast(t *meshFixture) {
	b := t.linked()
	for i, root := range t.links.Line() {
		t.put(root, b, uint32(7000+i))
		x, err := t.links.Broadcast(t.ctx, b, root)
		t.carryOut(x, err)
		for _, c := range t.links.Line() {
			t.is("broadcast", c, b, counting(b.Size(), uint32(7000+i)))
		}
	}
}

func meshSend(t *meshFixture) {
	b := t.linked()
	line := t.links.Line()
	x, err := t.links.Send(t.ctx, b, line[0], line[len(line)-1])
	t.carryOut(x, err)
	for i, c := range line {
		want := counting(b.Size(), 1000*uint32(i+1))
		if i == len(line)-1 {
			want = counting(b.Size(), 1000)
		}
		t.is("send", c, b, want)
	}
}

func meshAllGather(t *meshFixture) {
	b := t.linked()
	x, err := t.links.AllGather(t.ctx, b)
	t.carryOut(x, err)
	want := make([]byte, b.Size())
	for i, owner := range t.links.Line() {
		first, count := t.links.Slice(b, owner)
		copy(want[64*first:64*(first+count)], counting(b.Size(), 1000*uint32(i+1))[64*first:])
	}
	for _, c := range t.links.Line() {
		t.is("all_gather", c, b, want)
	}
}

func meshReduceScatter(t *meshFixture) {
	b := t.linked()
	x, err := t.links.ReduceScatter(t.ctx, b, mesh.SumInt32)
	t.carryOut(x, err)
	want := t.sums(b.Size())
	for _, c := range t.links.Line() {
		first, count := t.links.Slice(b, c)
		got := make([]byte, 64*count)
		t.ok(t.queue.On(c).Read(t.ctx, b.On(c), 64*first, got))
		if !bytes.Equal(got, want[64*first:64*(first+count)]) {
			t.Errorf("chip %v has % x", c.Coord, got[:16])
		}
	}
}

func meshAllReduce(t *meshFixture) {
	b := t.linked()
	x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.carryOut(x, err)
	for _, c := range t.links.Line() {
		t.is("all_reduce", c, b, t.sums(b.Size()))
	}
}

func meshAllReduceMax(t *meshFixture) {
	b := t.linked()
	x, err := t.links.AllReduce(t.ctx, b, mesh.MaxInt32)
	t.carryOut(x, err)
	for _, c := range t.links.Line() {
		t.is("maximum", c, b, counting(b.Size(), 1000*uint32(t.mesh.Size())))
	}
}

func meshLayer(t *meshFixture) {
	b := t.linked()
	in := t.pages("in")
	partial := t.loaded(t.adder(in, b, func(c *mesh.Chip) uint32 { return t.ordinal(c) }))
	sum, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	tr := t.recorded(partial, sum)
	chips := uint32(t.mesh.Size())
	for round := range uint32(3) {
		t.ok(t.queue.Write(t.ctx, in, counting(in.Size(), round)))
		t.ok(tr.Replay(t.ctx))
		var want []byte
		for i := range uint32(b.Size() / 4) {
			want = binary.LittleEndian.AppendUint32(want, chips*(round+i)+chips*(chips-1)/2)
		}
		for _, c := range t.mesh.Chips() {
			t.is("layer", c, b, want)
		}
	}
}

func meshCardLost(t *meshFixture) {
	_, out, x := t.setUp()
	tr := t.recorded(x)
	t.ok(t.queue.Finish(t.ctx))
	drv, err := t.machine.Emulated.Driver()
	t.ok(err)
	lost := t.mesh.Chips()[0]
	for i, c := range t.machine.Emulated.Cards() {
		if c.String() == lost.Device.Name() {
			t.ok(drv.Unplug(i))
		}
	}
	var failed error
	for range 100 {
		if failed = errors.Join(tr.Replay(t.ctx), t.queue.Finish(t.ctx)); failed != nil {
			break
		}
	}
	var e *mesh.Error
	if !errors.As(failed, &e) || len(e.Chips) != t.mesh.Size() || !errors.Is(failed, reprise.ErrDeviceLost) {
		t.Fatalf("with a card gone: %v", failed)
	}
	last := t.mesh.Shape().Coord(t.mesh.Size() - 1)
	part, err := tr.Part(mesh.Range{Start: last, End: last})
	t.ok(err)
	t.ok(part.Replay(context.WithoutCancel(t.ctx)))
	c := t.mesh.Chip(last...)
	t.is("another chip", c, out, counting(out.Size(), 101+100*t.ordinal(c)))
}

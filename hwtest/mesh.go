package hwtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
)

// onMesh passes a case the chips of its machine, which it shares with earlier cases.
func onMesh(fn func(*meshFixture)) func(*fixture) {
	return func(t *fixture) { fn(t.sharedMesh()) }
}

// onOwnMesh passes a case chips of its own, opened with options.
func onOwnMesh(fn func(*meshFixture), opts ...reprise.Option) func(*fixture) {
	return func(t *fixture) {
		if err := t.bench.close(t.Context()); err != nil { // so that there is one machine at a time
			t.Errorf("close: %v", err)
		}
		t.bench.level = levelMesh
		m := t.openMesh(opts...)
		t.Cleanup(func() { _ = m.close(context.WithoutCancel(t.ctx)) })
		fn(t.onMachine(m))
	}
}

func meshCases() []testCase {
	return []testCase{
		{name: "neighbours are linked", protects: "places of a mesh next to each other are chips that a link joins", fn: onMesh(meshNeighbours)},
		{name: "one address", protects: "what is allocated on a mesh has one address on all chips, which stay in step", fn: onMesh(meshOneAddress)},
		{name: "submeshes share memory", protects: "a submesh and its parent are never given the same memory", fn: onMesh(meshSubmeshMemory)},
		{name: "replicated buffer", protects: "a write of a replicated buffer reaches every chip", fn: onMesh(meshReplicated)},
		{name: "sharded tensor", protects: "a tensor that is spread over the chips comes back as it was, and each chip has its part", fn: onMesh(meshTensor)},
		{name: "L1 buffer", protects: "a buffer in L1 has one address on all chips and holds what is written", fn: onMesh(meshL1)},
		{name: "reshaped", protects: "the same chips in another shape are the same memory and queues", fn: onMesh(meshReshaped)},
		{name: "names", protects: "every chip of a mesh has a name of its own, which errors use", fn: onMesh(meshNames)},
		{name: "out of memory", protects: "what doesn't fit is refused on all chips, which stay in step", fn: onMesh(meshOutOfMemory)},
		{name: "memory again", protects: "what is freed on a mesh is allocated again at the same address", fn: onMesh(meshMemoryAgain)},
		{name: "replicated along an axis", protects: "chips along an axis that a tensor isn't cut along have the same part of it", fn: onMesh(meshAxis)},
		{name: "tensor on a submesh", protects: "a tensor that is spread over a submesh leaves the other chips alone", fn: onMesh(meshSubmeshTensor)},
		{name: "shapes that can't be", protects: "parts and shapes that a mesh doesn't have are refused with what is possible", fn: onMesh(meshShapes)},
	}
}

// meshFixture is a mesh with what cases need of it.
type meshFixture struct {
	*fixture
	machine *target.Linked
	mesh    *mesh.Mesh
	queue   *mesh.Queue
	links   *mesh.Links // of those that ask for them
}

// meshed is chips that are open as a mesh.
type meshed struct {
	machine *target.Linked
	mesh    *mesh.Mesh
}

func (m *meshed) close(ctx context.Context) error {
	return errors.Join(m.mesh.Close(ctx), m.machine.Close())
}

// sharedMesh opens a mesh, unless an earlier case has.
func (t *fixture) sharedMesh() *meshFixture {
	t.Helper()
	if t.bench.meshed == nil {
		t.bench.meshed = t.openMesh()
	}
	return t.onMachine(t.bench.meshed)
}

func (t *fixture) onMachine(m *meshed) *meshFixture {
	return &meshFixture{fixture: t, machine: m.machine, mesh: m.mesh, queue: m.mesh.Queue(0)}
}

// openMesh opens a mesh: of the machine that the device is named by, as large as it can be, of four chips of another
// emulator's kind, or of all cards of the vendor's library.
func (t *fixture) openMesh(opts ...reprise.Option) *meshed {
	t.Helper()
	if t.bench.alone != "" {
		t.Skip(t.bench.alone)
	}
	spec := chip.QuietBox()
	if t.device.Arch == chip.Wormhole {
		spec = chip.T3000() // whose chips with PCI interfaces are a square
	}
	m, err := t.device.Linked(spec)
	t.ok(err)
	if m == nil {
		t.Skip("needs a machine of several chips: an emulator, or a build of the vendor's simulator with several")
	}
	var shapes []mesh.Shape
	if named := t.device.Machine(); named != nil {
		shapes = append(shapes, named.Shape[:])
	}
	if len(m.Cards) == 1 { // of which a chip may be remote
		shapes = append(shapes, mesh.Shape{1, 2})
	}
	if len(m.Cards) == 4 {
		if m.Emulated == nil { // of which each may have a remote chip
			shapes = append(shapes, mesh.Shape{2, 4})
		}
		shapes = append(shapes, mesh.Shape{2, 2})
	}
	if len(m.Cards) == 8 || len(m.Cards) == 32 {
		shapes = append(shapes, mesh.Shape{len(m.Cards) / 8 * 2, 4}, mesh.Shape{len(m.Cards) / 4, 4})
	}
	shapes = append(shapes, mesh.Shape{1, len(m.Cards)}, mesh.Shape{1, min(2, len(m.Cards))})
	all := []mesh.Option{mesh.WithDevice(slices.Concat(t.config.firmware.options(), []reprise.Option{reprise.WithHangTimeout(t.patience())},
		opts)...)}
	for _, s := range shapes[1:] {
		all = append(all, mesh.OrShape(s))
	}
	open, err := mesh.Open(t.ctx, mesh.Cards(m.Cards...), shapes[0], all...)
	if err != nil {
		_ = m.Close() // the error is why
		t.ok(err)
	}
	if open.Size() < 2 {
		_ = errors.Join(open.Close(t.Context()), m.Close())
		t.bench.alone = "needs a machine of several chips, and this one has one that a mesh can have"
		t.Skip(t.bench.alone)
	}
	return &meshed{m, open}
}

// later releases something at the end of a case that passes: cases share the chips' memory.
func (t *meshFixture) later(fn func(context.Context) error) {
	t.Cleanup(func() {
		if !t.Failed() {
			_ = fn(context.WithoutCancel(t.ctx)) // it may be gone already, or the mesh
		}
	})
}

const meshPages = 4

// pages is a buffer of a few pages of 64 B on every chip.
func (t *meshFixture) pages(name string) *mesh.Buffer {
	t.Helper()
	b, err := t.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 * meshPages, PageSize: 64,
		Name: name}})
	t.ok(err)
	t.later(func(context.Context) error { return b.Release() })
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

// is checks the contents of a chip's buffer.
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
	return t.adderAt(chip.Core{X: 1, Y: 1}, in, out, add)
}

// adderAt is adder on one worker of each chip.
func (t *meshFixture) adderAt(at chip.Core, in, out *mesh.Buffer, add func(*mesh.Chip) uint32) mesh.Part {
	t.Helper()
	const from, to = 0, 16
	cores := []chip.Range{chip.Single(at.X, at.Y)}
	args := func(a ...uint32) func(chip.Core) []uint32 { return func(chip.Core) []uint32 { return a } }
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
				{Name: "reader", Image: read, Processor: chip.BRISC, Cores: cores, Args: args(in.Addr(), 0, meshPages, 64, from)},
				{Name: "add", Image: sum, Processor: chip.TRISC0, Cores: cores, Args: args(from, to, meshPages, add(c))},
				{Name: "writer", Image: write, Processor: chip.NCRISC, Cores: cores, Args: args(out.Addr(), 0, meshPages, 64, to)},
			},
			CircularBuffers: []reprise.CircularBuffer{{Index: from, Cores: cores, PageSize: 64, Pages: 2},
				{Index: to, Cores: cores, PageSize: 64, Pages: 2}},
			Buffers: []*reprise.Buffer{in.On(c), out.On(c)},
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
	t.later(x.Release)
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

func (t *meshFixture) recorded(xs ...*mesh.Executable) *reprise.Trace {
	t.Helper()
	tr, err := t.queue.Capture(t.ctx, "trace", func(_ context.Context, r *mesh.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
	t.ok(err)
	t.later(tr.Release)
	return tr
}

// on is the part of a trace on some chips.
func (t *meshFixture) on(tr *reprise.Trace, r mesh.Range) *reprise.Trace {
	t.Helper()
	qs, err := t.queue.In(r)
	t.ok(err)
	part, err := tr.Subset(qs...)
	t.ok(err)
	return part
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
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
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
	c := mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: 64, Name: "sub"}}
	one, err := sub.NewBuffer(c)
	t.ok(err)
	all, err := t.mesh.NewBuffer(c)
	t.ok(err)
	if one.Addr() == all.Addr() {
		t.Errorf("both are at %#x", one.Addr())
	}
	if t.mesh.InStep(allocator.DRAM) == nil {
		t.Error("chips with different buffers are in step")
	}
	t.ok(errors.Join(one.Release(), all.Release()))
	t.ok(t.mesh.InStep(allocator.DRAM))
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
	b, err := t.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 64, Name: "t"},
		Tensor: []int{2 * s[0], 16 * s[1]}, Unit: 4})
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

func meshL1(t *meshFixture) {
	b, err := t.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.L1, Size: 1024, PageSize: 32, Name: "l1"}})
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
	other, err := line.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: b.Size(), PageSize: 64,
		Name: "other"}})
	t.ok(err)
	if other.Addr() == b.Addr() {
		t.Errorf("both shapes gave %#x away", b.Addr())
	}
}

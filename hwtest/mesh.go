package hwtest

import (
	"bytes"
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
		{name: "L1 buffer", protects: "a buffer in L1 has one address on all chips and holds what is written", fn: onMesh(meshL1)},
		{name: "reshaped", protects: "the same chips in another shape are the same memory and queues", fn: onMesh(meshReshaped)},
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

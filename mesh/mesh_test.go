package mesh_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/mesh/hosts/hoststest"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMeshesAroundWhatIsBroken(t *testing.T) {
	m := sim.QuietBox(sim.LinkFault("link-down=0:4"), sim.LinkFault("link-down=0:5"), sim.LinkFault("link-down=0:6"),
		sim.LinkFault("link-down=0:7"))
	defer m.Close()
	cards := mesh.Cards(m.Cards()...)
	_, err := mesh.Open(t.Context(), cards, mesh.Shape{2, 2})
	var shape *mesh.ShapeError
	if !errors.As(err, &shape) || !cmp.Equal(shape.Possible[0], mesh.Shape{1, 4}) || len(shape.Problems) != 4 {
		t.Fatalf("2x2: %v", err)
	}
	b := openCards(t, cards, mesh.Shape{2, 2}, mesh.OrShape(mesh.Shape{1, 4}))
	if !cmp.Equal(b.mesh.Shape(), mesh.Shape{1, 4}) || len(b.mesh.Problems()) != 4 {
		t.Errorf("%v, problems %q", b.mesh, b.mesh.Problems())
	}
	b.must(b.mesh.Close(t.Context()))
	// A card that isn't there.
	cards[2] = kmd.Path("/dev/nowhere/7")
	_, err = mesh.Open(t.Context(), cards, mesh.Shape{2, 2})
	if !errors.As(err, &shape) || !strings.Contains(err.Error(), "/dev/nowhere/7") || !strings.Contains(err.Error(), "3 chips") {
		t.Errorf("three cards: %v", err)
	}
	if b := openCards(t, cards, mesh.Shape{3}); b.mesh.Size() != 3 {
		t.Errorf("%v", b.mesh)
	}
}

func TestOneAddressEverywhere(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{2, 2})
	subs := value(b.mesh.Submeshes(mesh.Shape{1, 2}))(b)
	rapid.Check(t, func(t *rapid.T) {
		meshes := []*mesh.Mesh{b.mesh, subs[0], subs[1]}
		type owned struct {
			m   *mesh.Mesh
			buf *mesh.Buffer
		}
		var live []owned
		defer func() {
			for _, o := range live {
				devtest.Must(t, o.buf.Release())
			}
			for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
				devtest.Must(t, b.mesh.InStep(k))
			}
		}()
		apart := false
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				devtest.Must(t, live[i].buf.Release())
				live = append(live[:i], live[i+1:]...)
				continue
			}
			n := rapid.IntRange(0, 2).Draw(t, "mesh")
			apart = apart || n > 0
			kind := rapid.SampledFrom([]allocator.Kind{allocator.DRAM, allocator.L1}).Draw(t, "kind")
			buf, err := meshes[n].NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{
				Kind: kind, PageSize: 64, Size: 64 * rapid.IntRange(1, 5000).Draw(t, "pages"), Name: "b",
			}})
			devtest.Must(t, err)
			for _, c := range meshes[n].Chips() {
				one := buf.On(c)
				if one.Addr() != buf.Addr() {
					t.Fatalf("chip %v has it at %#x, the first at %#x", c.Coord, one.Addr(), buf.Addr())
				}
				for _, o := range live {
					other := o.buf.On(c)
					if other == nil || other.Kind() != kind {
						continue
					}
					for _, p := range []int{0, other.Pages() - 1} {
						at, _ := other.Page(p)
						if _, _, ok := one.PageAt(at); ok {
							t.Fatalf("two buffers have %+v", at)
						}
					}
				}
			}
			live = append(live, owned{meshes[n], buf})
			if !apart {
				devtest.Must(t, b.mesh.InStep(kind))
			}
		}
	})
}

func TestTensorsAreSpread(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{2, 2})
	for _, c := range []struct {
		tensor, split []int
		chip          mesh.Coord
		first         uint32 // word of the tensor that the chip's part begins with
	}{
		{[]int{4, 32}, nil, mesh.Coord{1, 1}, 2*32 + 16},
		{[]int{4, 32}, []int{0, mesh.Replicate}, mesh.Coord{1, 1}, 2 * 32},
		{[]int{4, 32}, []int{mesh.Replicate, 0}, mesh.Coord{1, 1}, 2 * 32},
		{[]int{4, 32}, []int{1, 0}, mesh.Coord{0, 1}, 2 * 32},
		{[]int{2, 3, 32}, []int{2, 0}, mesh.Coord{1, 0}, 16},
		{[]int{64}, []int{mesh.Replicate, 0}, mesh.Coord{0, 1}, 32},
		{[]int{4, 16}, []int{mesh.Replicate, mesh.Replicate}, mesh.Coord{1, 0}, 0},
	} {
		buf, err := b.mesh.NewBuffer(mesh.BufferConfig{
			BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 64, Name: "t"}, Tensor: c.tensor, Unit: 4, Split: c.split,
		})
		b.must(err)
		data := words(buf.Size(), 0)
		b.must(b.queue.Write(b.ctx, buf, data))
		got := make([]byte, buf.Size())
		b.must(b.queue.Read(b.ctx, buf, got))
		if !bytes.Equal(got, data) {
			t.Errorf("%v over %v comes back changed", c.tensor, c.split)
		}
		part := make([]byte, 4)
		chip := b.mesh.Chip(c.chip...)
		b.must(b.queue.On(chip).Read(b.ctx, buf.On(chip), 0, part))
		if !bytes.Equal(part, words(4, c.first)) {
			t.Errorf("%v over %v: chip %v begins with % x, want word %d", c.tensor, c.split, c.chip, part, c.first)
		}
		b.must(buf.Release())
	}
	for _, c := range []struct{ tensor, split []int }{
		{[]int{3, 16}, nil}, {[]int{}, nil}, {[]int{4, -1}, nil}, {[]int{4, 16}, []int{0}}, {[]int{4, 16}, []int{0, 0}}, {[]int{4, 16}, []int{0, 2}},
		{[]int{1 << 40, 1 << 40}, nil},
	} {
		_, err := b.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 64}, Tensor: c.tensor,
			Unit: 4, Split: c.split})
		fails(t, err, mesh.ErrTensor, "%v over %v", c.tensor, c.split)
	}
}

func TestOpenSaysWhatEachChipDid(t *testing.T) {
	m := sim.QuietBox()
	defer m.Close()
	_, err := mesh.Open(t.Context(), mesh.Cards(m.Cards()...), mesh.Shape{2, 2}, mesh.WithDevice(reprise.WithQueues(7)))
	var e *mesh.Error
	if !errors.As(err, &e) || len(e.Chips) != 4 || len(e.Failed()) == 0 {
		t.Fatalf("7 queues: %v", err)
	}
	for i := range m.Cards() {
		c := m.Chip(i)
		if c == nil {
			t.Fatal("no chip")
		}
	}
	b := openCards(t, mesh.Cards(m.Cards()...), mesh.Shape{2, 2})
	b.must(b.mesh.Close(t.Context()))
	b.must(b.mesh.Close(t.Context()))
	fails(t, second(b.mesh.NewBuffer(mesh.BufferConfig{})), mesh.ErrClosed, "buffer of a mesh that is closed")
}

func TestOpenOfNilLeavesNothingOpen(t *testing.T) {
	for range 20 {
		card := sim.Wormhole()
		if _, err := mesh.Open(t.Context(), mesh.Machine{card, nil}, mesh.Shape{1}); err == nil {
			t.Fatal("a target that is nil is a chip")
		}
		if card.Chip() != nil {
			t.Fatal("the first card was opened, and nobody closes it")
		}
	}
}

func TestMeshesWithoutLinks(t *testing.T) {
	b := openCards(t, mesh.Cards(sim.Wormhole()), mesh.Shape{1})
	in, out := b.pages("in", 2), b.pages("out", 2)
	b.write(in, 1)
	trace := b.capture("t", b.load("add", b.adder("add", in, out, always(4))))
	b.replay(trace)
	b.holds(b.mesh.Chip(0), out, 5)
	links := value(b.mesh.NewLinks(b.ctx, chip.Core{X: 2}))(b)
	sum := value(links.AllReduce(b.ctx, out, mesh.SumInt32))(b)
	b.run(sum)
	b.holds(b.mesh.Chip(0), out, 5)
	b.must(links.Release(b.ctx))

	apart := openCards(t, mesh.Cards(sim.Blackhole(), sim.Blackhole()), mesh.Shape{2}, mesh.Unlinked())
	if apart.mesh.Linked(mesh.Coord{0}, mesh.Coord{1}) {
		t.Error("cards of two machines are linked")
	}
	proof(apart)
	fails(t, second(mesh.Open(t.Context(), mesh.Cards(sim.Blackhole(), sim.Blackhole()), mesh.Shape{2})), mesh.ErrShape,
		"cards that no link joins")
	fails(t, second(mesh.Open(t.Context(), mesh.Cards[kmd.Target](sim.Blackhole(), sim.Wormhole()), mesh.Shape{2},
		mesh.Unlinked())), mesh.ErrMismatch, "two architectures")
}

func TestEventsAndShapesOfAMesh(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{2, 2}, mesh.WithDevice(reprise.WithQueues(2)))
	line, err := b.mesh.Reshape(mesh.Shape{4})
	b.must(err)
	if line.Parent() != b.mesh || len(line.Graph().Chips) != 4 || line.InGraph(line.Chip(3)) == line.InGraph(line.Chip(0)) {
		t.Errorf("%v of %v", line, line.Parent())
	}
	for i := range 3 {
		if !line.Linked(mesh.Coord{i}, mesh.Coord{i + 1}) {
			t.Errorf("places %d and %d aren't linked", i, i+1)
		}
	}
	_, err = b.mesh.Reshape(mesh.Shape{3})
	expect.Says(t, err, nil, "shape 3", "mesh 2x2 has 4 chips")
	buf, e, data := b.pages("data", 4), b.mesh.NewEvent("written"), devtest.Words(4*64, 7)
	b.must(b.queue.Write(b.ctx, buf, data))
	b.must(b.queue.Record(b.ctx, e))
	b.must(b.mesh.Queue(1).WaitEvent(b.ctx, e))
	got := make([]byte, len(data))
	b.must(b.mesh.Queue(1).Read(b.ctx, buf, got))
	b.must(e.Wait(b.ctx))
	if done, err := e.Query(); err != nil || !done || !bytes.Equal(got, data) || e.On(b.mesh.Chip(1, 1)) == nil {
		t.Errorf("done %t: %v", done, err)
	}
	for _, err := range []error{
		line.Queue(0).Record(b.ctx, e), line.Queue(0).WaitEvent(b.ctx, e), line.Queue(0).Write(b.ctx, buf, data),
	} {
		expect.Fails(t, err, mesh.ErrWrongMesh, "error")
	}
	program, err := devtest.Adder(b.mesh.Chip(0, 0).Device, "add", chip.Core{}, buf.On(b.mesh.Chip(0, 0)), buf.On(b.mesh.Chip(0, 0)), 1)
	b.must(err)
	x := b.load("same", mesh.Same(mesh.Range{}, program, buf))
	b.run(x)
	b.must(b.queue.Read(b.ctx, buf, got))
	if !bytes.Equal(got, devtest.Words(4*64, 8)) {
		t.Error("a chip lacks the sum")
	}
}

func proof(b *bench) {
	in, out := b.pages("in", 8), b.pages("out", 8)
	x := b.load("add", b.adder("add", in, out, func(c *mesh.Chip) uint32 { return 3 }))
	b.write(in, 1)
	b.run(x)
	b.allHold(out, 4)
	trace := b.capture("t", x, x)
	if n, _ := trace.Streams(); n != 1 {
		b.Errorf("%d streams of commands, want 1", n)
	}
	b.write(in, 7)
	b.replay(trace)
	b.allHold(out, 10)
	skew := value(b.mesh.Skew(b.ctx, trace))(b)
	b.Logf("%v: chips were through within %v of each other, clocks read within %v", b.mesh, skew.Spread, skew.Within)
	if len(skew.Chips) != b.mesh.Size() || skew.Spread < 0 {
		b.Errorf("skew %+v", skew)
	}
	b.must(trace.Release(b.ctx))
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
		b.must(b.mesh.InStep(k))
	}
}

func TestGalaxies(t *testing.T) {
	effort.Long(t)
	for _, make := range []func(...sim.Option) *sim.Machine{sim.GalaxyWormhole, sim.GalaxyBlackhole} {
		m := make()
		t.Cleanup(func() { _ = m.Close() })
		t.Run(m.String(), func(t *testing.T) {
			start := time.Now()
			b := open(t, m, mesh.Shape{8, 4})
			t.Logf("open in %v", time.Since(start))
			proof(b)
			b.must(b.mesh.Close(t.Context()))
		})
	}
}

func TestVendorSimulator(t *testing.T) {
	cards := value(ttsimtest.Start(t, ttsimtest.BlackholeX2).Cards())(t)
	proof(openCards(t, mesh.Cards(cards...), mesh.Shape{1, 2}))
}

func TestReleaseOfASpanHoldsNoOthersUp(t *testing.T) {
	workers := func(id, first, last int) reprise.Option {
		return reprise.WithQueueWorkers(id, chip.Range{Start: chip.Core{X: first}, End: chip.Core{X: last, Y: 3}})
	}
	b := open(t, sim.P300(), mesh.Shape{1, 2}, mesh.WithDevice(reprise.WithQueues(2), workers(0, 0, 3), workers(1, 4, 7),
		reprise.WithHangTimeout(5*time.Minute)))
	in, out, last := b.pages("in", 4), b.pages("out", 4), b.pages("last", 4)
	x := b.load("x", b.adder("add", in, out, always(1)))
	second := b.adder("second", out, last, always(1))
	y := b.load("y", mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		p, err := second.Program(c)
		cores := []chip.Range{chip.Single(5, 1)}
		for i := range p.Kernels {
			p.Kernels[i].Cores = cores
		}
		for i := range p.CircularBuffers {
			p.CircularBuffers[i].Cores = cores
		}
		return p, err
	}})
	other := b.capture("other", x)
	part := value(b.subset(other, mesh.At(0, 0)))(b)
	qs := []*mesh.Queue{b.mesh.Queue(0), b.mesh.Queue(1)}
	done := b.mesh.NewEvent("done")
	trace, err := qs[0].Capture(b.ctx, "both", func(_ context.Context, r *mesh.Recorder) error {
		second := r.Queue(qs[1])
		return errors.Join(r.Run(x), r.Record(done), second.WaitEvent(done), second.Run(y))
	}, qs[1])
	b.must(err)
	b.replay(trace)
	release := b.held(b.mesh.Chip(0, 1))
	released, replayed := make(chan error, 1), make(chan error, 1)
	go func() { released <- trace.Release(b.ctx) }()
	for b.part(trace, b.mesh.Chip(0, 0)).Extents != nil { // then only the held chip is left
		time.Sleep(time.Millisecond)
	}
	go func() { replayed <- part.Replay(b.ctx) }()
	select {
	case err := <-replayed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("a trace of another chip waits for the release")
	}
	select {
	case err := <-released:
		t.Errorf("released before its queues were done: %v", err)
	default:
	}
	release()
	b.must(<-released)
	b.must(b.mesh.Queue(0).Wait(b.ctx))
}

func (b *bench) held(c *mesh.Chip) (release func()) {
	b.Helper()
	word := value(c.Device.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64, Name: "word"}))(b)
	b.must(b.mesh.Queue(0).On(c).Write(b.ctx, word, 0, make([]byte, 64)))
	im := value(kernels.Prebuilt(c.Device.Arch(), kernels.Spin))(b)
	x, err := c.Device.Load(b.ctx, &reprise.Program{Name: "hold", Buffers: []*reprise.Buffer{word}, Kernels: []reprise.Kernel{{
		Name: "wait", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
		Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} },
	}}})
	b.must(err)
	b.must(b.mesh.Queue(0).On(c).Run(b.ctx, x))
	return func() {
		b.Helper()
		b.must(b.mesh.Queue(1).On(c).Write(b.ctx, word, 0, append([]byte{1}, make([]byte, 63)...)))
	}
}

func TestOneChipRecovers(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{2, 2})
	in, out := b.pages("in", 4), b.pages("out", 4)
	trace := b.capture("t", b.load("add", b.adder("add", in, out, always(2))))
	b.replay(trace)
	b.wait()
	b.must(b.mesh.Chip(1, 1).Device.Recover(b.ctx))
	b.must(b.mesh.InStep(allocator.DRAM))
	b.write(in, 9)
	b.replay(trace)
	b.allHold(out, 11)
}

func TestShapesCountRowByRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mesh.Shape(rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "shape"))
		var last mesh.Coord
		for i := range s.Size() {
			c := s.Coord(i)
			if n, ok := s.Index(c); !ok || n != i {
				t.Fatalf("%v: place %d is %v, whose number is %d", s, i, c, n)
			}
			if i > 0 && slices.Compare(last, c) >= 0 {
				t.Fatalf("%v comes before %v", last, c)
			}
			last = c
		}
		out := s.Coord(0)
		out[len(out)-1] = s[len(s)-1]
		if _, ok := s.Index(out); ok {
			t.Fatalf("%v has %v", s, out)
		}
	})
}

func TestRangeContainsItsPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		axes := rapid.IntRange(1, 3).Draw(t, "axes")
		var r mesh.Range
		s := make(mesh.Shape, axes)
		for i := range s {
			a, b := rapid.IntRange(0, 4).Draw(t, "an end"), rapid.IntRange(0, 4).Draw(t, "the other end")
			r.Start, r.End, s[i] = append(r.Start, min(a, b)), append(r.End, max(a, b)), 5
		}
		var places []mesh.Coord
		for i := range s.Size() {
			if c := s.Coord(i); r.Contains(c) {
				places = append(places, c)
			}
		}
		if d := cmp.Diff(slices.Collect(r.Coords()), places); d != "" {
			t.Fatalf("%v goes through and contains other places: %s", r, d)
		}
	})
}

func TestRangesWhoseEndsDiffer(t *testing.T) {
	for _, r := range []mesh.Range{{Start: mesh.Coord{0, 0}}, {End: mesh.Coord{1, 1}}, {Start: mesh.Coord{0, 0}, End: mesh.Coord{1}},
		{Start: mesh.Coord{0}, End: mesh.Coord{1, 1}}} {
		if r.Contains(mesh.Coord{1, 1}) || r.Contains(mesh.Coord{1}) || r.Shape().Size() != 0 {
			t.Errorf("%v has places", r)
		}
		for range r.Coords() {
			t.Errorf("%v goes through places", r)
		}
	}
}

func TestShapesThatCannotBe(t *testing.T) {
	fails(t, second(mesh.Open(t.Context(), nil, mesh.Shape{2, 0})), mesh.ErrShape, "2x0")
	if s := (mesh.Shape{1, 4, 1}); !s.Line() {
		t.Errorf("%v is no line", s)
	}
	if s := (mesh.Shape{2, 2}); s.Line() {
		t.Errorf("%v is a line", s)
	}
}

func TestHost(t *testing.T) {
	m := value(mesh.Host(t.Context()))(t)
	for _, card := range m {
		if card.String() == "" {
			t.Error("a card without a name")
		}
	}
}

func TestFarChips(t *testing.T) {
	for _, tt := range []struct {
		make  func(...sim.Option) *sim.Machine
		shape mesh.Shape
		far   int
	}{
		{sim.N300, mesh.Shape{1, 2}, 1},
		{sim.T3000, mesh.Shape{2, 4}, 4},
		{sim.T3000, mesh.Shape{2, 2}, 0},
	} {
		if tt.shape.Size() > effort.Of(4, 8, 8) {
			continue
		}
		m := tt.make()
		t.Run(m.String()+"/"+tt.shape.String(), func(t *testing.T) {
			start := time.Now()
			b := open(t, m, tt.shape)
			t.Logf("open in %v", time.Since(start))
			far := 0
			for _, c := range b.mesh.Chips() {
				if c.Remote {
					far++
				}
			}
			expect.Equal(t, far, tt.far, "chips without a PCI interface")
			proof(b)
			if !testing.Short() && b.mesh.Size() == 2 {
				newGroup(b, 3, 64).all(1)
			}
			start = time.Now()
			b.must(b.mesh.Close(t.Context()))
			t.Logf("close in %v", time.Since(start))
			for i := range m.Spec().Chips {
				expect.Fails(t, m.Chip(i).Fault(), nil, "chip %d", i)
			}
		})
	}
}

type farPair struct {
	*bench
	machine   *sim.Machine
	near, far *mesh.Chip
	in, out   *mesh.Buffer
	add       *mesh.Executable
}

func openPair(t *testing.T, opts ...sim.Option) *farPair {
	t.Helper()
	p := &farPair{machine: sim.N300(opts...)}
	p.bench = open(t, p.machine, mesh.Shape{1, 2}, mesh.WithDevice(reprise.WithHangTimeout(2*time.Second)))
	p.near, p.far = p.mesh.Chip(0, 0), p.mesh.Chip(0, 1)
	if p.near.Remote || !p.far.Remote {
		t.Fatal("want the local chip first")
	}
	p.in, p.out = p.pages("in", 4), p.pages("out", 4)
	p.add = p.load("add", p.adder("add", p.in, p.out, always(3)))
	return p
}

func (p *farPair) works(c *mesh.Chip, first uint32) {
	p.Helper()
	p.must(p.queue.On(c).Write(p.ctx, p.in.On(c), 0, words(p.in.Size(), first)))
	p.must(p.queue.On(c).Run(p.ctx, p.add.On(c)))
	p.holds(c, p.out, first+3)
}

func TestFarLinkGoesDown(t *testing.T) {
	effort.Raced(t)
	p := openPair(t)
	p.works(p.far, 1)
	p.must(p.machine.SetLink(0, 9, false))
	p.must(p.queue.On(p.far).Run(p.ctx, p.add.On(p.far)))
	err := p.queue.Wait(p.ctx)
	var hang *dispatch.HangError
	var e *mesh.Error
	if !errors.As(err, &hang) || !errors.As(err, &e) || !errors.Is(err, kmd.ErrLinkDown) ||
		!strings.Contains(err.Error(), "link 0000:01:00.0 eth9 - ") {
		t.Fatalf("with the link down: %v", err)
	}
	p.works(p.near, 5)
	p.must(p.machine.SetLink(0, 9, true))
	p.must(p.far.Device.Recover(p.ctx))
	p.works(p.far, 9)
	p.works(p.near, 11)
}

func TestAllFarLinksGoDown(t *testing.T) {
	p := openPair(t)
	p.must(errors.Join(p.machine.SetLink(0, 8, false), p.machine.SetLink(0, 9, false)))
	p.must(p.queue.On(p.far).Run(p.ctx, p.add.On(p.far)))
	err := p.queue.On(p.far).Wait(p.ctx)
	if !errors.Is(err, kmd.ErrLinkDown) {
		t.Fatalf("with all links down: %v", err)
	}
	p.works(p.near, 5)
	p.must(errors.Join(p.machine.SetLink(0, 8, true), p.machine.SetLink(0, 9, true)))
	p.must(p.far.Device.Recover(p.ctx))
	p.works(p.far, 9)
}

func TestFarChipHangs(t *testing.T) {
	effort.Raced(t)
	p := openPair(t)
	im := value(kernels.Prebuilt(p.far.Device.Arch(), kernels.Spin))(p)
	x, err := p.far.Device.Load(p.ctx, &reprise.Program{Name: "spin", Kernels: []reprise.Kernel{{
		Name: "spin", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(2, 3)},
		Args: func(chip.Core) []uint32 { return []uint32{0x100000, 1} },
	}}})
	p.must(err)
	p.must(p.queue.On(p.far).Run(p.ctx, x))
	var hang *dispatch.HangError
	if err := p.queue.On(p.far).Wait(p.ctx); !errors.As(err, &hang) || len(hang.Cores) == 0 || errors.Is(err, kmd.ErrLinkDown) {
		t.Fatalf("a far kernel hangs: %v", err)
	}
	p.works(p.near, 5)
	p.must(p.far.Device.Recover(p.ctx))
	p.works(p.far, 9)
}

func TestFarChipBehindBadLink(t *testing.T) {
	effort.Raced(t)
	p := openPair(t)
	for _, f := range []string{"link-delay=0:9/3", "link-delay=1:1/3", "link-duplicate=0:9/2", "link-duplicate=1:1/2", "link-drop=0:9/4",
		"link-drop=1:1/4"} {
		p.must(p.machine.Inject(f))
	}
	for i := range uint32(20) {
		p.works(p.far, i)
	}
	data := words(300<<10, 7)
	buf := value(p.far.Device.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: len(data), PageSize: 2048}))(p)
	p.must(p.queue.On(p.far).Write(p.ctx, buf, 0, data))
	got := make([]byte, len(data))
	p.must(p.queue.On(p.far).Read(p.ctx, buf, 0, got))
	expect.Equal(t, string(got), string(data), "bytes that came back")
}

func TestFarChipIsQuietWhenClosed(t *testing.T) {
	effort.Raced(t)
	p := openPair(t)
	p.works(p.far, 3)
	p.must(p.mesh.Close(t.Context()))
	near := value(kmd.Open(p.ctx, p.machine.Card(0)))(p)
	defer near.Close()
	expect.Equal(t, expect.Value(near.Read32(chip.XY{X: 1, Y: 6}, 0x9004))(t), 0, "the Ethernet tile's launch flag")
	b := openCards(t, mesh.Cards(p.machine.Cards()...), mesh.Shape{1, 2})
	b.wait()
}

func acrossHosts(t *testing.T, spec chip.Machine, n int, f func(ctx context.Context, e *hosts.Local, m *sim.Machine) error) []error {
	t.Helper()
	engines, err := hosts.InProcess(n)
	devtest.Must(t, err)
	listeners, addresses := make([]net.Listener, n), make([]string, n)
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		addresses[i] = listeners[i].Addr().String()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	return hoststest.Each(engines, func(e *hosts.Local) error {
		defer e.Close()
		conns, err := sim.Meet(ctx, listeners[e.Rank()], e.Rank(), addresses, []byte("test"))
		if err != nil {
			return err
		}
		m := sim.NewMachine(spec, sim.OfPart(sim.Part{Index: e.Rank(), Count: n, Conns: conns}))
		defer m.Close()
		if err := m.Err(); err != nil {
			return err
		}
		return f(ctx, e, m)
	})
}

func reduced(ctx context.Context, m *mesh.Mesh, replay func(*reprise.Trace) error) (map[string][]byte, error) {
	const pages, page = 8, 256
	b, err := m.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: pages * page, PageSize: page,
		Name: "b"}})
	if err != nil {
		return nil, err
	}
	links, err := m.NewLinks(ctx, chip.Core{X: 1, Y: 1})
	if err != nil {
		return nil, err
	}
	q := m.Queue(0)
	for i, c := range m.Chips() {
		if c.Device == nil {
			continue
		}
		data := make([]byte, pages*page)
		for k := 0; k < len(data); k += 4 {
			binary.LittleEndian.PutUint32(data[k:], uint32(i+1)*1000+uint32(k))
		}
		if err := q.On(c).Write(ctx, b.On(c), 0, data); err != nil {
			return nil, err
		}
	}
	sum, err := links.AllReduce(ctx, b, mesh.SumInt32)
	if err != nil {
		return nil, err
	}
	gather, err := links.AllGather(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(q.Run(ctx, sum), q.Run(ctx, gather)); err != nil {
		return nil, err
	}
	trace, err := q.Capture(ctx, "step", func(_ context.Context, r *mesh.Recorder) error {
		return r.Loop(3, func() error { return errors.Join(r.Run(sum), r.Run(links.Barrier())) })
	})
	if err != nil {
		return nil, err
	}
	for range 2 {
		if err := replay(trace); err != nil {
			return nil, err
		}
	}
	out := map[string][]byte{}
	for _, c := range m.Here() {
		got := make([]byte, pages*page)
		if err := q.On(c).Read(ctx, b.On(c), 0, got); err != nil {
			return nil, err
		}
		out[c.Coord.String()] = got
	}
	return out, errors.Join(q.Wait(ctx), trace.Release(ctx), sum.Release(ctx), gather.Release(ctx), links.Release(ctx), b.Release())
}

func TestAcross(t *testing.T) {
	effort.Raced(t)
	for _, tc := range []struct {
		spec  chip.Machine
		shape mesh.Shape
		parts []int
	}{
		{chip.QuietBox(), mesh.Shape{2, 2}, []int{2, 4}},
		{chip.P300(), mesh.Shape{1, 2}, []int{2}},
	} {
		whole := sim.NewMachine(tc.spec)
		m := value(mesh.Open(t.Context(), mesh.Cards(whole.Cards()...), tc.shape))(t)
		want := value(reduced(t.Context(), m, func(tr *reprise.Trace) error { return tr.Replay(t.Context()) }))(t)
		devtest.Must(t, errors.Join(m.Close(t.Context()), whole.Close()))
		for _, n := range tc.parts {
			got := make([]map[string][]byte, n)
			for i, err := range acrossHosts(t, tc.spec, n, func(ctx context.Context, e *hosts.Local, machine *sim.Machine) error {
				m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), tc.shape, mesh.Across(e))
				if err != nil {
					return err
				}
				g, err := hosts.Join(ctx, e, m)
				if err != nil {
					return err
				}
				if got[e.Rank()], err = reduced(ctx, m, func(tr *reprise.Trace) error { return g.Replay(ctx, tr) }); err != nil {
					return err
				}
				_, err = e.Exchange(ctx, "end", nil) // no chip ends while another one needs its links
				return errors.Join(err, m.Close(ctx))
			}) {
				expect.Fails(t, err, nil, "%s in %d parts, host %d", tc.spec.Name, n, i)
			}
			chips := 0
			for i := range got {
				for coord, data := range got[i] {
					chips++
					if !bytes.Equal(data, want[coord]) {
						t.Errorf("%s in %d parts, host %d: chip %s has other results than in one process", tc.spec.Name, n, i, coord)
					}
				}
			}
			expect.Equal(t, chips, tc.shape.Size(), "%s in %d parts: chips with results", tc.spec.Name, n)
		}
	}
}

func TestAcrossTensors(t *testing.T) {
	data := make([]byte, 4*64)
	for i := range data {
		data[i] = byte(i)
	}
	for i, err := range acrossHosts(t, chip.QuietBox(), 2, func(ctx context.Context, e *hosts.Local, machine *sim.Machine) error {
		m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{2, 2}, mesh.Across(e))
		if err != nil {
			return err
		}
		if len(m.Here()) != 2 || m.Size() != 4 {
			return fmt.Errorf("%d of %d chips here", len(m.Here()), m.Size())
		}
		for _, split := range [][]int{{0, 1}, {0, mesh.Replicate}, {mesh.Replicate, 0}, {mesh.Replicate, mesh.Replicate}} {
			b, err := m.NewBuffer(mesh.BufferConfig{
				BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 32, Name: "t"}, Tensor: []int{4, 64}, Unit: 1, Split: split,
			})
			if err != nil {
				return err
			}
			got := bytes.Repeat([]byte{0xEE}, len(data))
			if err := errors.Join(m.Queue(0).Write(ctx, b, data), m.Queue(0).Read(ctx, b, got)); err != nil {
				return err
			}
			all, err := e.Exchange(ctx, "read", got)
			if err != nil {
				return err
			}
			for k, v := range data {
				if all[0][k] != v && all[1][k] != v || all[0][k] != v && all[0][k] != 0xEE || all[1][k] != v && all[1][k] != 0xEE {
					return fmt.Errorf("split %v: byte %d is %d and %d, want %d", split, k, all[0][k], all[1][k], v)
				}
			}
			if err := b.Release(); err != nil {
				return err
			}
		}
		sub, err := m.Submesh(mesh.At(0, 0))
		if err != nil {
			return err
		}
		if b, err := sub.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: 64,
			PageSize: 64}}); err != nil || b.Size() != 64 ||
			(b.On(sub.Chips()[0]) == nil) != (sub.Chips()[0].Host != e.Rank()) {
			return fmt.Errorf("buffer of a submesh: %v", err)
		}
		return m.Close(ctx)
	}) {
		expect.Fails(t, err, nil, "host %d", i)
	}
}

func TestAcrossFails(t *testing.T) {
	for i, err := range acrossHosts(t, chip.QuietBox(), 2, func(ctx context.Context, e *hosts.Local, machine *sim.Machine) error {
		cards := mesh.Cards(machine.Cards()...)
		if e.Rank() == 1 {
			cards = nil
		}
		_, err := mesh.Open(ctx, cards, mesh.Shape{2, 2}, mesh.Across(e))
		return err
	}) {
		if err == nil || !strings.Contains(err.Error(), "no targets") || errors.Is(err, mesh.ErrElsewhere) != (i == 0) {
			t.Errorf("host %d: %v", i, err)
		}
	}
	for i, err := range acrossHosts(t, chip.QuietBox(), 2, func(ctx context.Context, e *hosts.Local, machine *sim.Machine) error {
		_, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{3, 2}, mesh.Across(e))
		return err
	}) {
		var shape *mesh.ShapeError
		if !errors.As(err, &shape) || len(shape.Possible) == 0 || shape.Possible[0].Size() != 4 {
			t.Errorf("host %d: %v", i, err)
		}
	}
}

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

type bench struct {
	*testing.T
	ctx   context.Context
	mesh  *mesh.Mesh
	queue *mesh.Queue
}

func open(t *testing.T, machine *sim.Machine, shape mesh.Shape, opts ...mesh.Option) *bench {
	t.Helper()
	t.Cleanup(func() { _ = machine.Close() })
	return openCards(t, mesh.Cards(machine.Cards()...), shape, opts...)
}

func openCards(t *testing.T, cards mesh.Machine, shape mesh.Shape, opts ...mesh.Option) *bench {
	t.Helper()
	b := &bench{T: t, ctx: t.Context()}
	var err error
	b.mesh, err = mesh.Open(b.ctx, cards, shape, opts...)
	b.must(err)
	t.Cleanup(func() { _ = b.mesh.Close(context.Background()) })
	b.queue = b.mesh.Queue(0)
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	devtest.Must(b, err)
}

func (b *bench) run(x *mesh.Executable) {
	b.Helper()
	b.must(b.queue.Run(b.ctx, x))
}

func (b *bench) wait() {
	b.Helper()
	b.must(b.queue.Wait(b.ctx))
}

func (b *bench) replay(t *reprise.Trace) {
	b.Helper()
	b.must(t.Replay(b.ctx))
}

func (b *bench) write(buf *mesh.Buffer, first uint32) {
	b.Helper()
	b.must(b.queue.Write(b.ctx, buf, words(buf.Size(), first)))
}

func (b *bench) pages(name string, n int) *mesh.Buffer {
	b.Helper()
	return value(b.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: n * 64, PageSize: 64,
		Name: name}}))(b)
}

func (b *bench) adder(name string, in, out *mesh.Buffer, addend func(c *mesh.Chip) uint32) mesh.Part {
	return mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		return devtest.Adder(c.Device, name, chip.Core{X: 1, Y: 2}, in.On(c), out.On(c), addend(c))
	}}
}

func always(v uint32) func(*mesh.Chip) uint32 { return func(*mesh.Chip) uint32 { return v } }

func (b *bench) load(name string, parts ...mesh.Part) *mesh.Executable {
	b.Helper()
	return value(b.mesh.Load(b.ctx, name, parts...))(b)
}

func (b *bench) part(t *reprise.Trace, c *mesh.Chip) reprise.Part {
	for _, p := range t.Parts() {
		if p.Queue == b.queue.On(c) {
			return p
		}
	}
	return reprise.Part{}
}

func (b *bench) subset(t *reprise.Trace, r mesh.Range) (*reprise.Trace, error) {
	qs, err := b.queue.In(r)
	if err != nil {
		return nil, err
	}
	return t.Subset(qs...)
}

func (b *bench) record(name string, f func(r *mesh.Recorder) error) *reprise.Trace {
	b.Helper()
	return value(b.queue.Capture(b.ctx, name, func(_ context.Context, r *mesh.Recorder) error { return f(r) }))(b)
}

func (b *bench) capture(name string, xs ...*mesh.Executable) *reprise.Trace {
	b.Helper()
	return b.record(name, func(r *mesh.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
}

func words(n int, first uint32) []byte { return devtest.Words(n, first) }

// allHold wants the same words on every chip.
func (b *bench) allHold(buf *mesh.Buffer, first uint32) {
	b.Helper()
	for _, c := range b.mesh.Chips() {
		b.holds(c, buf, first)
	}
}

func (b *bench) holds(c *mesh.Chip, buf *mesh.Buffer, first uint32) {
	b.Helper()
	got := make([]byte, buf.On(c).Size())
	b.must(b.queue.On(c).Read(b.ctx, buf.On(c), 0, got))
	if want := words(len(got), first); !bytes.Equal(got, want) {
		b.Errorf("chip %v: buffer %q starts with %#x, want %#x", c.Coord, buf.Name(), binary.LittleEndian.Uint32(got), first)
	}
}

// value is must for a call with a result.
func value[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		devtest.Must(t, err)
		return v
	}
}

var fails = expect.Fails

func second[V any](_ V, err error) error { return err }

package mesh_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func sample(r *rand.Rand, how mesh.Combine) uint32 {
	odd := []uint32{0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x80000001, 0x7F7FFFFF, 0x00800000, 0x007FFFFF}
	float := func() uint32 {
		switch r.IntN(8) {
		case 0:
			return odd[r.IntN(len(odd))]
		case 1:
			return r.Uint32()
		}
		return math.Float32bits(float32(r.NormFloat64()) * float32(math.Pow(2, float64(r.IntN(12)))))
	}
	switch how {
	case mesh.SumFloat32, mesh.MaxFloat32, mesh.SumTilesFloat32:
		return float()
	case mesh.SumBFloat16, mesh.MaxBFloat16, mesh.SumTilesBFloat16:
		return float()>>16 | float()&0xFFFF0000
	}
	return r.Uint32()
}

func quiet(f float32) uint32 {
	if f != f {
		return 0x7FC00000
	}
	return math.Float32bits(f)
}

func combined(how mesh.Combine, a, b uint32) uint32 {
	fa, fb := math.Float32frombits(a), math.Float32frombits(b)
	largest := func(a, b uint32) uint32 {
		fa, fb := math.Float32frombits(a), math.Float32frombits(b)
		switch {
		case fa != fa || fb != fb:
			return 0x7FC00000
		case fa == fb && a != b: // the two zeros
			return 0
		case fa < fb:
			return b
		}
		return a
	}
	narrow := func(v uint32) uint32 {
		if v&0x7FFFFFFF > 0x7F800000 {
			return 0x7FC0
		}
		return (v + 0x7FFF + v>>16&1) >> 16
	}
	switch how {
	case mesh.SumInt32:
		return a + b
	case mesh.SumInt16:
		return (a+b)&0xFFFF | (a>>16+b>>16)<<16
	case mesh.SumInt8:
		var sum [4]byte
		for i := range sum {
			sum[i] = byte(a>>(8*i)) + byte(b>>(8*i))
		}
		return binary.LittleEndian.Uint32(sum[:])
	case mesh.MaxInt32:
		return uint32(max(int32(a), int32(b)))
	case mesh.SumFloat32:
		return quiet(fa + fb)
	case mesh.MaxFloat32:
		return largest(a, b)
	case mesh.SumBFloat16:
		sum := func(a, b uint32) uint32 { return narrow(quiet(math.Float32frombits(a) + math.Float32frombits(b))) }
		return sum(a<<16, b<<16) | sum(a&0xFFFF0000, b&0xFFFF0000)<<16
	default:
		return largest(a<<16, b<<16)>>16 | largest(a&0xFFFF0000, b&0xFFFF0000)&0xFFFF0000
	}
}

type group struct {
	*bench
	links *mesh.Links
	buf   *mesh.Buffer
	was   [][]uint32
	words int // of a page
}

func newGroup(b *bench, pages, page int) *group {
	b.Helper()
	return newGroupOn(b, chip.Core{X: 2, Y: 1}, pages, page)
}

func newGroupOn(b *bench, core chip.Core, pages, page int) *group {
	b.Helper()
	links := value(b.mesh.NewLinks(b.ctx, core))(b)
	buf, err := b.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: pages * page,
		PageSize: page, Name: "data"}})
	b.must(err)
	return &group{bench: b, links: links, buf: buf, words: page / 4}
}

func (g *group) fill(seed uint64, how mesh.Combine) {
	g.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	g.was = nil
	for _, c := range g.links.Line() {
		var ws []uint32
		var p []byte
		for range g.buf.Size() / 4 {
			ws = append(ws, sample(r, how))
			p = binary.LittleEndian.AppendUint32(p, ws[len(ws)-1])
		}
		g.was = append(g.was, ws)
		g.must(g.queue.On(c).Write(g.ctx, g.buf.On(c), 0, p))
	}
}

func (g *group) reduced(how mesh.Combine, word, owner int, scatter bool) uint32 {
	n := len(g.was)
	at := func(i int) uint32 { return g.was[((i%n)+n)%n][word] }
	pages := g.buf.Size() / 4 / g.words
	if g.links.Ring() && pages%n == 0 {
		v := at(owner + 1)
		for i := 2; i <= n; i++ {
			v = g.combined(how, v, at(owner+i))
		}
		return v
	}
	last := n - 1
	if scatter {
		last = owner
	}
	v := at(0)
	for i := 1; i <= last; i++ {
		v = g.combined(how, v, at(i))
	}
	if last < n-1 {
		w := at(n - 1)
		for i := n - 2; i > last; i-- {
			w = g.combined(how, w, at(i))
		}
		if engines(how) { // the slice's chip adds the second part to its own sum
			return g.combined(how, w, v)
		}
		v = g.combined(how, v, w)
	}
	return v
}

// want returns false for undefined words.
func (g *group) check(what string, want func(place, word, owner int) (uint32, bool)) {
	g.Helper()
	g.wait()
	for i, c := range g.links.Line() {
		got := make([]byte, g.buf.Size())
		g.must(g.queue.On(c).Read(g.ctx, g.buf.On(c), 0, got))
		for k := range g.was[i] {
			if w, ok := want(i, k, g.owner(k)); ok && binary.LittleEndian.Uint32(got[4*k:]) != w {
				g.Fatalf("%s: chip %d of the line, word %d is %#x, want %#x", what, i, k, binary.LittleEndian.Uint32(got[4*k:]), w)
			}
		}
	}
}

func (g *group) owner(word int) int {
	for o, c := range g.links.Line() {
		if first, count := g.links.Slice(g.buf, c); word/g.words >= first && word/g.words < first+count {
			return o
		}
	}
	return 0
}

func (g *group) all(seed uint64) {
	g.Helper()
	line := g.links.Line()
	run := func(x *mesh.Executable, err error) {
		g.Helper()
		g.must(err)
		g.run(x)
		g.wait()
		g.must(x.Release(g.ctx))
	}
	for how := mesh.SumInt32; how <= mesh.SumInt8; how++ {
		if len(line) > 2 && how != mesh.SumFloat32 {
			continue // the arithmetic is the same on longer lines
		}
		g.fill(seed, how)
		run(g.links.AllReduce(g.ctx, g.buf, how))
		g.check("all_reduce", func(_, k, o int) (uint32, bool) { return g.reduced(how, k, o, false), true })
		g.fill(seed+1, how)
		run(g.links.ReduceScatter(g.ctx, g.buf, how))
		g.check("reduce_scatter", func(i, k, o int) (uint32, bool) { return g.reduced(how, k, o, true), i == o })
	}
	g.fill(seed, mesh.SumInt32)
	run(g.links.AllGather(g.ctx, g.buf))
	g.check("all_gather", func(_, k, o int) (uint32, bool) { return g.was[o][k], true })
	root := len(line) / 2
	g.fill(seed, mesh.SumInt32)
	run(g.links.Broadcast(g.ctx, g.buf, line[root]))
	g.check("broadcast", func(_, k, _ int) (uint32, bool) { return g.was[root][k], true })
	g.fill(seed, mesh.SumInt32)
	run(g.links.Send(g.ctx, g.buf, line[len(line)-1], line[0]))
	g.check("send", func(i, k, _ int) (uint32, bool) {
		if i == 0 {
			i = len(line) - 1
		}
		return g.was[i][k], true
	})
	g.run(g.links.Barrier())
	g.wait()
}

func TestCollectives(t *testing.T) {
	if testing.Short() {
		t.Skip("several chips, too slow under the race detector; other tests take the same paths")
	}
	for _, c := range []struct {
		machine     func(...sim.Option) *sim.Machine
		shape       mesh.Shape
		pages, page int
	}{
		{sim.P300, mesh.Shape{1, 2}, 5, 64},
		{sim.QuietBox, mesh.Shape{2, 2}, 4, 64}, // a ring
		{sim.QuietBox, mesh.Shape{3}, 4, 100},
		{sim.T3000, mesh.Shape{2, 2}, 3, 1024},
	}[:effort.Of(2, 4, 4)] {
		m := c.machine()
		t.Cleanup(func() { _ = m.Close() })
		t.Run(m.String()+" "+c.shape.String(), func(t *testing.T) {
			newGroup(open(t, m, c.shape), c.pages, c.page).all(uint64(c.pages))
		})
	}
}

func TestCollectivesOnVendorSimulator(t *testing.T) {
	cards := value(ttsimtest.Start(t, ttsimtest.BlackholeX2).Cards())(t)
	newGroup(openCards(t, mesh.Cards(cards...), mesh.Shape{1, 2}), 3, 64).all(1)
}

func TestLinksThatFailTakeNothing(t *testing.T) {
	b := open(t, sim.P300(), mesh.Shape{1, 2})
	before := b.mesh.Chip(0, 0).Device.MemoryFingerprint(allocator.DRAM)
	if _, err := b.mesh.NewLinks(b.ctx, chip.Core{X: 99, Y: 99}); err == nil {
		t.Fatal("a core that isn't there drives links")
	}
	for _, c := range b.mesh.Chips() {
		s := c.Device.Memory(allocator.DRAM)
		expect.Equal(t, s.Allocated, 0, "chip %v", c.Coord)
		expect.Equal(t, c.Device.MemoryFingerprint(allocator.DRAM), before, "chip %v", c.Coord)
	}
	newGroup(b, 2, 64)
}

func TestCollectivesThatCannotBe(t *testing.T) {
	b := open(t, sim.P300(), mesh.Shape{1, 2})
	g := newGroup(b, 4, 64)
	large := value(b.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM,
		Size: 8192, Name: "large"}}))(b)
	fails(t, second(g.links.AllGather(b.ctx, large)), mesh.ErrTensor, "pages of 8 KiB")
	expect.Error(t, second(g.links.AllReduce(b.ctx, g.buf, mesh.Replace)))
	fails(t, second(g.links.Broadcast(b.ctx, g.buf, nil)), mesh.ErrWrongMesh, "from nowhere")
	alone := open(t, sim.QuietBox(), mesh.Shape{2}, mesh.Unlinked())
	fails(t, second(alone.mesh.NewLinks(b.ctx, chip.Core{})), mesh.ErrNoLinks, "without links")
}

func engines(how mesh.Combine) bool {
	return how == mesh.SumTilesBFloat16 || how == mesh.SumTilesFloat32
}

func (g *group) combined(how mesh.Combine, arrived, own uint32) uint32 {
	arch := arith.Blackhole
	if g.links.Line()[0].Device.Arch() == chip.Wormhole {
		arch = arith.Wormhole
	}
	var hi, lo [1]arith.DstRow
	var out arith.Row
	l1 := make([]byte, 64)
	pack := arith.Pack{Mid: arith.BF16, Out: arith.BF16, Wide: true}
	switch how {
	case mesh.SumTilesFloat32: // the vector unit multiplies by one and adds
		const one = 0x3F800000
		v := arith.EncodeDst32(arith.FlushDenormal(arch.FMA(own, one, arrived)))
		hi[0][0], lo[0][0] = uint16(v>>16), uint16(v)
		pack.Mid, pack.Out = arith.FP32, arith.FP32
	case mesh.SumTilesBFloat16: // two numbers
		arith.Math{Arch: arch, A: arith.BF16, B: arith.BF16, Wide: true}.ElwAddRows(hi[:], lo[:],
			[]arith.Row{{own << 16, own & 0xFFFF0000}}, []arith.Row{{arrived << 16, arrived & 0xFFFF0000}}, false)
	default:
		return combined(how, arrived, own)
	}
	pack.Row(&out, &hi[0], &lo[0])
	pack.Store(l1, out[:])
	return binary.LittleEndian.Uint32(l1)
}

func (g *group) tiles(seed uint64, how mesh.Combine) {
	g.Helper()
	for range 2 { // engines start again where they ended
		for what, load := range map[string]func() (*mesh.Executable, error){
			"all_reduce":     func() (*mesh.Executable, error) { return g.links.AllReduce(g.ctx, g.buf, how) },
			"reduce_scatter": func() (*mesh.Executable, error) { return g.links.ReduceScatter(g.ctx, g.buf, how) },
		} {
			g.fill(seed, how)
			x := value(load())(g)
			g.run(x)
			scatter := what == "reduce_scatter"
			g.check(what, func(i, k, o int) (uint32, bool) {
				if scatter && i != o {
					return 0, false
				}
				return g.reduced(how, k, o, scatter), true
			})
			g.must(x.Release(g.ctx))
			seed++
		}
	}
}

func TestSumsOfTiles(t *testing.T) {
	effort.Long(t)
	for _, c := range []struct {
		machine func(...sim.Option) *sim.Machine
		shape   mesh.Shape
		pages   int
		how     mesh.Combine
		bytes   int // if it isn't a tile
	}{
		{sim.N300, mesh.Shape{1, 2}, 5, mesh.SumTilesBFloat16, 0}, // with a far chip
		{sim.N300, mesh.Shape{2}, 3, mesh.SumTilesFloat32, 0},
		{sim.P300, mesh.Shape{1, 2}, 5, mesh.SumTilesFloat32, 0},
		{sim.T3000, mesh.Shape{2, 2}, 8, mesh.SumTilesBFloat16, 0}, // a ring
		{sim.T3000, mesh.Shape{2, 4}, 3, mesh.SumTilesFloat32, 0},
		{sim.QuietBox, mesh.Shape{3}, 4, mesh.SumTilesBFloat16, 0},
		{sim.QuietBox, mesh.Shape{2, 2}, 4, mesh.SumTilesFloat32, 0},
		{sim.P300, mesh.Shape{1, 2}, 5, mesh.SumTilesBFloat16, 100},
		{sim.QuietBox, mesh.Shape{2, 2}, 8, mesh.SumTilesFloat32, 2052},
		{strictP300, mesh.Shape{1, 2}, 3, mesh.SumTilesFloat32, 36},
	} {
		m := c.machine()
		t.Cleanup(func() { _ = m.Close() })
		t.Run(m.String()+" "+c.shape.String(), func(t *testing.T) {
			g := newGroup(open(t, m, c.shape), c.pages, cmp.Or(c.bytes, tileBytes(c.how)))
			g.tiles(uint64(c.pages), c.how)
		})
	}
}

func strictP300(opts ...sim.Option) *sim.Machine { return sim.P300(append(opts, sim.Strict(5))...) }

func tileBytes(how mesh.Combine) int {
	if how == mesh.SumTilesFloat32 {
		return 4096
	}
	return 2048
}

func TestSumsOfTilesOnVendorSimulator(t *testing.T) {
	cards := value(ttsimtest.Start(t, ttsimtest.BlackholeX2).Cards())(t)
	b := openCards(t, mesh.Cards(cards...), mesh.Shape{1, 2})
	for _, how := range []mesh.Combine{mesh.SumTilesBFloat16, mesh.SumTilesFloat32} {
		newGroup(b, 3, tileBytes(how)).tiles(1, how)
	}
}

// Collectives in random order, on machines of two or three chips with every check and every
// reordering that hardware may do, over links that delay and repeat packets, have the result of a
// model of the documented order.
func TestStrict(t *testing.T) {
	for _, c := range []struct {
		arch  chip.Arch
		cores chip.Harvesting
	}{{chip.Wormhole, chip.Harvesting{Tensix: 0x3FC}}, {chip.Blackhole, chip.Harvesting{Tensix: 0x3FFC}}} {
		t.Run(c.arch.String(), func(t *testing.T) {
			seeds := effort.Of[uint64](1, 4, 1000)
			for seed := range seeds {
				if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { strict(t, c.arch, c.cores, seed) }) && !effort.Hours {
					return
				}
			}
		})
	}
}

func few(r *rand.Rand, arch chip.Arch) chip.Machine {
	m := chip.Machine{Name: "few", Arch: arch}
	n := 2 + r.IntN(2)
	for i := range n {
		m.Chips = append(m.Chips, chip.MachineChip{Board: i, Kind: map[chip.Arch]uint16{chip.Wormhole: chip.BoardN150,
			chip.Blackhole: chip.BoardP150}[arch], PCI: true, X: uint8(i)})
	}
	for i := range n - 1 {
		for k := range 1 + r.IntN(2) {
			m.Links = append(m.Links, chip.Link{Chip: i, Channel: k, PeerChip: i + 1, PeerChannel: 4 + k})
		}
	}
	if n > 2 && r.IntN(2) == 0 {
		m.Links = append(m.Links, chip.Link{Chip: n - 1, Channel: 2, PeerChip: 0, PeerChannel: 6})
	}
	return m
}

func strict(t *testing.T, arch chip.Arch, cores chip.Harvesting, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	spec := few(r, arch)
	opts := []sim.Option{sim.Strict(seed), sim.Harvesting(cores)}
	for _, l := range spec.Links {
		for _, end := range []string{fmt.Sprintf("%d:%d", l.Chip, l.Channel), fmt.Sprintf("%d:%d", l.PeerChip, l.PeerChannel)} {
			if f := r.IntN(4); f > 1 {
				opts = append(opts, sim.LinkFault(fmt.Sprintf("link-%s=%s/%d", []string{"delay", "duplicate"}[f-2], end, 1+r.IntN(5))))
			}
		}
	}
	machine := sim.NewMachine(spec, opts...)
	b := open(t, machine, mesh.Shape{len(spec.Chips)})
	grid := b.mesh.Chips()[0].Device.Grid()
	g := newGroupOn(b, at(grid, r.IntN(grid.Size())), 1+r.IntN(6), []int{4, 12, 16, 60, 64, 100, 128, 256}[r.IntN(8)])
	if seed%16 == 5 {
		g = newGroupOn(b, at(grid, r.IntN(grid.Size())), 2, 4096)
	}
	how := mesh.SumInt32 + mesh.Combine(r.IntN(int(mesh.MaxBFloat16)))
	if seed%4 == 2 {
		how = mesh.SumTilesBFloat16 + mesh.Combine(r.IntN(2))
		g = newGroupOn(b, at(grid, r.IntN(grid.Size())), 1+r.IntN(4), tileBytes(how))
	}
	g.fill(seed, how)
	for range effort.Of(1, 2, 2) {
		var steps []*mesh.Executable
		var models []func()
		for range 1 + r.IntN(3) {
			xs, model := g.random(r, how)
			steps, models = append(steps, xs...), append(models, model)
		}
		rounds := 1
		if r.IntN(2) == 0 {
			trace := b.capture("collectives", steps...)
			rounds += r.IntN(2)
			for range rounds {
				b.replay(trace)
			}
			b.must(trace.Release(b.ctx))
		} else {
			for _, x := range steps {
				b.run(x)
				if r.IntN(4) == 0 {
					b.wait()
				}
			}
		}
		for range rounds {
			for _, model := range models {
				model()
			}
		}
		g.check("after the collectives", func(i, k, _ int) (uint32, bool) { return g.was[i][k], true })
		for _, x := range steps {
			if x != g.links.Barrier() {
				b.must(x.Release(b.ctx))
			}
		}
	}
	for i := range spec.Chips {
		if err := machine.Chip(i).Fault(); err != nil {
			t.Error(err)
		}
	}
}

func (g *group) random(r *rand.Rand, how mesh.Combine) ([]*mesh.Executable, func()) {
	g.Helper()
	line := g.links.Line()
	n := len(line)
	one := func(x *mesh.Executable, err error) *mesh.Executable {
		g.Helper()
		g.must(err)
		return x
	}
	become := func(f func(place, word, owner int) uint32) func() {
		return func() {
			next := make([][]uint32, n)
			for i := range next {
				for k := range g.was[i] {
					next[i] = append(next[i], f(i, k, g.owner(k)))
				}
			}
			g.was = next
		}
	}
	switch r.IntN(6) {
	case 0:
		return []*mesh.Executable{one(g.links.AllReduce(g.ctx, g.buf, how))},
			become(func(_, k, o int) uint32 { return g.reduced(how, k, o, false) })
	case 1: // the slices of others are undefined after the first
		return []*mesh.Executable{one(g.links.ReduceScatter(g.ctx, g.buf, how)), one(g.links.AllGather(g.ctx, g.buf))},
			become(func(_, k, o int) uint32 { return g.reduced(how, k, o, true) })
	case 2:
		return []*mesh.Executable{one(g.links.AllGather(g.ctx, g.buf))}, become(func(_, k, o int) uint32 { return g.was[o][k] })
	case 3:
		from := r.IntN(n)
		return []*mesh.Executable{one(g.links.Broadcast(g.ctx, g.buf, line[from]))},
			become(func(_, k, _ int) uint32 { return g.was[from][k] })
	case 4:
		from, to := r.IntN(n), r.IntN(n)
		return []*mesh.Executable{one(g.links.Send(g.ctx, g.buf, line[from], line[to]))}, become(func(i, k, _ int) uint32 {
			if i == to {
				i = from
			}
			return g.was[i][k]
		})
	}
	return []*mesh.Executable{g.links.Barrier()}, func() {}
}

func at(g chip.Range, i int) chip.Core {
	w := g.End.X - g.Start.X + 1
	return chip.Core{X: g.Start.X + i%w, Y: g.Start.Y + i/w}
}

func TestTraceOfAMesh(t *testing.T) {
	for _, make := range []func(...sim.Option) *sim.Machine{sim.QuietBox, sim.T3000} {
		machine := make()
		t.Cleanup(func() { _ = machine.Close() })
		t.Run(machine.String(), func(t *testing.T) {
			b := open(t, machine, mesh.Shape{2, 2})
			in, out := b.pages("in", 8), b.pages("out", 8)
			same := b.load("same", b.adder("same", in, out, always(7)))
			b.write(in, 1)
			calls := 0
			trace := b.record("once", func(r *mesh.Recorder) error {
				calls++
				return errors.Join(r.Run(same), r.Run(same))
			})
			if n, bytes := trace.Streams(); calls != 1 || n != 1 || bytes != trace.Parts()[0].Size {
				t.Errorf("recorded %d times, %d streams of %d B for a trace of %d B", calls, n, bytes, trace.Size())
			}
			for _, c := range b.mesh.Chips() {
				if got, want := b.part(trace, c).Extents[0], b.part(trace, b.mesh.Chip(0, 0)).Extents[0]; got != want {
					t.Errorf("chip %v has the trace at %+v, the first at %+v", c.Coord, got, want)
				}
			}
			for range 5 {
				b.replay(trace)
			}
			b.wait()
			b.allHold(out, 8)
			part := value(b.subset(trace, mesh.At(1, 0)))(b)
			b.write(in, 50)
			b.replay(part)
			b.wait()
			for i, want := range []uint32{8, 8, 57, 8} {
				b.holds(b.mesh.Chips()[i], out, want)
			}
			b.must(trace.Release(b.ctx))
			fails(t, trace.Release(b.ctx), reprise.ErrReleased, "second release")
			fails(t, trace.Replay(b.ctx), reprise.ErrReleased, "replay after release")
			b.must(errors.Join(same.Release(b.ctx), in.Release(), out.Release()))
			b.must(b.mesh.InStep(allocator.DRAM))
			expect.Equal(t, b.mesh.Chip(0, 0).Device.Memory(allocator.DRAM).Allocated, 0, "B are left")
		})
	}
}

func TestCapturesRefuse(t *testing.T) {
	b := open(t, sim.P300(), mesh.Shape{1, 2})
	in, out := b.pages("in", 8), b.pages("out", 8)
	x := b.load("x", b.adder("x", in, out, always(1)))
	earlier := b.capture("earlier", x)
	e := b.mesh.NewEvent("e")
	for what, f := range map[string]func(ctx context.Context) error{
		"write":  func(ctx context.Context) error { return b.queue.Write(ctx, in, make([]byte, in.Size())) },
		"read":   func(ctx context.Context) error { return b.queue.Read(ctx, in, make([]byte, in.Size())) },
		"run":    func(ctx context.Context) error { return b.queue.Run(ctx, x) },
		"finish": func(ctx context.Context) error { return b.queue.Wait(ctx) },
		"record": func(ctx context.Context) error { return b.queue.Record(ctx, e) },
		"replay": func(ctx context.Context) error { return earlier.Replay(ctx) },
		"load": func(ctx context.Context) error {
			_, err := b.mesh.Load(ctx, "y", b.adder("y", in, out, always(1)))
			return err
		},
		"capture": func(ctx context.Context) error {
			_, err := b.queue.Capture(ctx, "z", func(context.Context, *mesh.Recorder) error { return nil })
			return err
		},
	} {
		var inside error
		_, err := b.queue.Capture(b.ctx, "t", func(ctx context.Context, r *mesh.Recorder) error {
			inside = f(ctx)
			return r.Run(x)
		})
		var ce *reprise.CaptureError
		if !errors.As(err, &ce) || !errors.Is(inside, reprise.ErrInCapture) || !strings.HasSuffix(ce.File, "trace_test.go") {
			t.Errorf("%s: %v, inside %v", what, err, inside)
		}
	}
	b.run(x)
	b.wait()
	b.must(earlier.Release(b.ctx))
}

func TestTraceParameters(t *testing.T) {
	b := open(t, sim.P300(), mesh.Shape{1, 2})
	in, out := b.pages("in", 8), b.pages("out", 8)
	b.write(in, 0)
	x := b.load("add", b.adder("add", in, out, always(3)))
	trace := b.record("with", func(r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.Run(x), r.Param(x, "addend", reprise.Arg{Kernel: "add", Index: 3}))
	})
	if n, _ := trace.Streams(); n != 2 {
		t.Errorf("%d streams, want one for each chip", n)
	}
	for i := range uint32(3) {
		b.must(trace.Set("addend", 40+i))
		b.replay(trace)
		b.allHold(out, 40+i)
	}
	other := b.pages("other", 8)
	moved := b.record("moved", func(r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.ParamBuffer(x, "out", out, reprise.Arg{Kernel: "writer", Index: 0}))
	})
	b.must(moved.SetBuffer("out", other.All()...))
	b.replay(moved)
	for _, c := range b.mesh.Chips() {
		b.holds(c, other, 3)
		b.holds(c, out, 42)
	}
	expect.Error(t, moved.SetBuffer("out", nil))
	fails(t, trace.Set("other", 1), reprise.ErrNoParam, "no such parameter")
}

func TestReplayAllocatesNothing(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{4})
	in, out := b.pages("in", 1), b.pages("out", 1)
	trace := b.capture("t", b.load("add", b.adder("add", in, out, always(1))))
	b.replay(trace)
	n := math.Inf(1) // the emulator may allocate now and then
	for range 5 {
		b.wait()
		n = min(n, testing.AllocsPerRun(20, func() { b.replay(trace) }))
	}
	b.wait()
	expect.Equal(t, n, 0, "times that a replay on 4 chips takes memory")
}

func TestReplayWithAChipGone(t *testing.T) {
	machine := sim.QuietBox()
	b := open(t, machine, mesh.Shape{2, 2})
	in, out := b.pages("in", 4), b.pages("out", 4)
	x := b.load("add", b.adder("add", in, out, always(9)))
	trace := b.capture("t", x)
	b.write(in, 1)
	b.wait()
	lost := b.mesh.Chip(1, 0)
	card := 0
	for i, c := range machine.Cards() {
		if c.String() == lost.Device.Name() {
			card = i
		}
	}
	drv := value(machine.Driver())(b)
	b.must(drv.Unplug(card))
	var failed error
	for range 1000 {
		if failed = trace.Replay(b.ctx); failed != nil {
			break
		}
	}
	if failed == nil {
		failed = b.queue.Wait(b.ctx)
	}
	var e *reprise.PartsError
	if !errors.As(failed, &e) || len(e.Parts) != 4 || len(e.Failed()) != 1 || e.Failed()[0].Queue.Device() != lost.Device ||
		!errors.Is(failed, reprise.ErrDeviceLost) {
		t.Fatalf("with a chip gone: %v", failed)
	}
	if err := trace.Replay(b.ctx); !errors.As(err, &e) || !errors.Is(err, reprise.ErrSkipped) {
		t.Errorf("the next replay: %v", err)
	}
	for _, r := range []mesh.Range{{Start: mesh.Coord{0, 0}, End: mesh.Coord{0, 1}}, mesh.At(1, 1)} {
		part := value(b.subset(trace, r))(b)
		b.replay(part)
	}
	for _, c := range []*mesh.Chip{b.mesh.Chip(0, 0), b.mesh.Chip(0, 1), b.mesh.Chip(1, 1)} {
		b.holds(c, out, 10)
	}
}

func TestTraceFileOfAMesh(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{2, 2})
	in, out := b.pages("in", 8), b.pages("out", 8)
	part := b.adder("some", in, out, func(c *mesh.Chip) uint32 { return uint32(10 * (1 + c.Coord[1])) })
	part.Range = mesh.Range{Start: mesh.Coord{0, 0}, End: mesh.Coord{0, 1}}
	x := b.load("some", part)
	trace := b.capture("some", x)
	b.write(in, 1)
	b.wait()
	var file bytes.Buffer
	b.must(trace.Save(b.ctx, &file, reprise.WithData(in.All()[0], in.All()[1])))
	b.must(errors.Join(trace.Release(b.ctx), x.Release(b.ctx), in.Release(), out.Release()))

	loaded := value(b.mesh.LoadTrace(b.ctx, bytes.NewReader(file.Bytes())))(b)
	if n := len(loaded.Parts()); n != 2 {
		t.Fatalf("it has %d parts, want 2", n)
	}
	b.replay(loaded)
	b.wait()
	for i, c := range b.mesh.Chips()[:2] {
		for _, buf := range loaded.Buffers() {
			if buf.Name() != "out" || buf.Device() != c.Device {
				continue
			}
			got := make([]byte, buf.Size())
			b.must(b.queue.On(c).Read(b.ctx, buf, 0, got))
			if want := words(len(got), uint32(1+10*(1+i))); !bytes.Equal(got, want) {
				t.Errorf("chip %v has % x, want % x", c.Coord, got[:8], want[:8])
			}
		}
	}
	b.must(loaded.Debug().Verify(b.ctx))
	b.must(loaded.Release(b.ctx))
	fails(t, second(b.mesh.Chip(0, 0).Device.LoadTrace(b.ctx, bytes.NewReader(file.Bytes()))), reprise.ErrOtherTarget, "loaded on one chip")
	expect.Equal(t, b.mesh.Chip(0, 0).Device.Memory(allocator.DRAM).Allocated, 0, "B are left")
}

// Arguments beside the kernels.
func TestParamOfEachChip(t *testing.T) {
	for _, runs := range []int{1, 3} {
		b := open(t, sim.P300(), mesh.Shape{1, 2}, mesh.WithDevice(reprise.WithHangTimeout(2e9)))
		g := b.mesh.Chip(0, 0).Device.Grid()
		out, err := b.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.L1, Size: 64 * g.Size(), PageSize: 64,
			Name: "out"}})
		b.must(err)
		load := func(value uint32) *mesh.Executable {
			return b.load("wide", mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
				im, err := kernels.Prebuilt(c.Device.Arch(), kernels.Store)
				return &reprise.Program{Name: "wide", Buffers: []*reprise.Buffer{out.On(c)}, Kernels: []reprise.Kernel{{
					Name: "store", Image: im, Processor: chip.BRISC, Cores: []chip.Range{g}, Common: []uint32{0},
					Args: func(k chip.Core) []uint32 {
						a := []uint32{out.On(c).Addr(), 16}
						for len(a) < 64 {
							a = append(a, value)
						}
						return a
					},
				}}}, err
			}})
		}
		x, y := load(7), load(9)
		trace := b.record("with", func(r *mesh.Recorder) error {
			var errs []error
			for range runs {
				errs = append(errs, r.Run(x))
			}
			return errors.Join(append(errs, r.Run(y), r.Param(y, "n", reprise.Arg{Kernel: "store", Index: 1}))...)
		})
		b.replay(trace)
		for _, c := range b.mesh.Chips() {
			if err := c.Device.Queue(0).Wait(b.ctx); err != nil {
				t.Errorf("%d runs: chip %v: %v", runs, c.Coord, err)
				continue
			}
			got := make([]byte, 64*g.Size())
			b.must(c.Device.Queue(0).Read(b.ctx, out.On(c), 0, got))
			for i := 0; i < len(got); i += 64 {
				if v := binary.LittleEndian.Uint32(got[i:]); v != 9 {
					t.Errorf("%d runs: chip %v: core %d has %#x, want 9", runs, c.Coord, i/64, v)
					break
				}
			}
		}
	}
}

func TestControlFlow(t *testing.T) {
	for _, tt := range []struct {
		machine func(...sim.Option) *sim.Machine
		shape   mesh.Shape
	}{{sim.P300, mesh.Shape{1, 2}}, {sim.N300, mesh.Shape{1, 2}}, {sim.T3000, mesh.Shape{2, 4}}} {
		if tt.shape.Size() > effort.Of(2, 8, 8) {
			continue
		}
		m := tt.machine()
		t.Run(m.String(), func(t *testing.T) {
			b := open(t, m, tt.shape)
			eachDecides(b)
			oneDecides(b)
		})
	}
}

func (b *bench) page(buf *mesh.Buffer, first func(i int) uint32) {
	b.Helper()
	for i, c := range b.mesh.Chips() {
		b.must(b.queue.On(c).Write(b.ctx, buf.On(c), 0, words(64, first(i))))
	}
}

func (b *bench) first(buf *mesh.Buffer, c *mesh.Chip) uint32 {
	b.Helper()
	got := make([]byte, 64)
	b.must(b.queue.On(c).Read(b.ctx, buf.On(c), 0, got))
	return binary.LittleEndian.Uint32(got)
}

func eachDecides(b *bench) {
	b.Helper()
	n, m := b.pages("n", 1), b.pages("m", 1)
	one := b.load("one", b.adder("one", n, n, always(1)))
	ten := b.load("ten", b.adder("ten", m, m, always(10)))
	below := func(v uint32) func(*mesh.Chip) reprise.Cond {
		return func(c *mesh.Chip) reprise.Cond { return reprise.Cond{Buffer: n.On(c), Is: cq.Less, Value: v} }
	}
	trace := b.record("each", func(r *mesh.Recorder) error {
		return errors.Join(
			r.Switch(n, 0, func() error { return r.Run(ten) }, func() error { return r.Loop(2, func() error { return r.Run(ten) }) }),
			r.While(below(9), 20, func() error {
				return errors.Join(r.Run(one), r.If(below(5), func() error { return r.Run(ten) }, nil))
			}),
			r.If(below(10), func() error { return r.Run(one) }, func() error { return r.Run(ten) }),
		)
	})
	b.page(n, func(i int) uint32 { return uint32(i) * 5 % 12 })
	b.page(m, func(int) uint32 { return 0 })
	b.replay(trace)
	for i, c := range b.mesh.Chips() {
		v, w := uint32(i)*5%12, uint32(0)
		if v < 2 {
			w += 10 * (v + 1)
		}
		for v < 9 {
			if v++; v < 5 {
				w += 10
			}
		}
		if v < 10 {
			v++
		} else {
			w += 10
		}
		gotN, gotM := b.first(n, c), b.first(m, c)
		expect.Equal(b, gotN, v, "%s", c.Name)
		expect.Equal(b, gotM, w, "%s", c.Name)
	}
	b.must(trace.Release(b.ctx))
	failed := errors.New("the body has failed")
	fails(b, second(b.queue.Capture(b.ctx, "fails", func(_ context.Context, r *mesh.Recorder) error {
		return r.Loop(2, func() error { return failed })
	})), failed, "a body that fails")
	expect.Error(b, second(b.queue.Capture(b.ctx, "nil", func(_ context.Context, r *mesh.Recorder) error { return r.Loop(2, nil) })))
}

func oneDecides(b *bench) {
	b.Helper()
	links := value(b.mesh.NewLinks(b.ctx, chip.Core{}))(b)
	sum := b.pages("sum", 1)
	reduce := value(links.AllReduce(b.ctx, sum, mesh.SumInt32))(b)
	enough := uint32(1000)
	trace := b.record("one", func(r *mesh.Recorder) error {
		return r.While(func(c *mesh.Chip) reprise.Cond {
			return reprise.Cond{Buffer: sum.On(c), Is: cq.Less, Value: enough}
		}, 20, func() error { return r.Run(reduce) })
	})
	b.page(sum, func(i int) uint32 { return uint32(i) + 1 })
	b.replay(trace)
	chips := uint32(len(b.mesh.Chips()))
	want := chips * (chips + 1) / 2
	for want < enough {
		want *= chips
	}
	for _, c := range b.mesh.Chips() {
		expect.Equal(b, b.first(sum, c), want, "%s: the sum", c.Name)
	}
	b.must(trace.Release(b.ctx))
}

// The host's cost of a replay for each chip, which must stay flat: the quickest of many, because
// the emulated chips run on the same processors.
func BenchmarkReplay(b *testing.B) {
	machine := sim.GalaxyBlackhole()
	defer machine.Close()
	m, err := mesh.Open(b.Context(), mesh.Cards(machine.Cards()...), mesh.Shape{8, 4})
	devtest.Must(b, err)
	defer m.Close(b.Context())
	im, err := kernels.Prebuilt(chip.Blackhole, kernels.Blank)
	devtest.Must(b, err)
	x, err := m.Load(b.Context(), "blank", mesh.Same(mesh.Range{}, &reprise.Program{Name: "blank", Kernels: []reprise.Kernel{{
		Name: "nothing", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
	}}}))
	devtest.Must(b, err)
	trace, err := m.Queue(0).Capture(b.Context(), "blank", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	devtest.Must(b, err)
	for _, shape := range []mesh.Shape{{1, 1}, {1, 2}, {1, 4}, {2, 4}, {4, 4}, {8, 4}} {
		queues, err := m.Queue(0).In(mesh.Range{Start: mesh.Coord{0, 0}, End: mesh.Coord{shape[0] - 1, shape[1] - 1}})
		devtest.Must(b, err)
		part, err := trace.Subset(queues...)
		devtest.Must(b, err)
		b.Run(fmt.Sprint(shape.Size()), func(b *testing.B) {
			best := time.Hour
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				devtest.Must(b, part.Replay(b.Context()))
				best = min(best, time.Since(start))
				if i%16 == 15 {
					b.StopTimer()
					devtest.Must(b, m.Queue(0).Wait(b.Context()))
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(best)/float64(shape.Size()), "best-ns/chip")
		})
	}
}

func twoByFour(t *testing.T, opts ...reprise.Option) *bench {
	t.Helper()
	var cards []*sim.Card
	for range 8 {
		cards = append(cards, sim.Wormhole())
	}
	return openCards(t, mesh.Cards(cards...), mesh.Shape{2, 4}, mesh.Unlinked(), mesh.WithDevice(opts...))
}

func area(y0, x0, y1, x1 int) mesh.Range {
	return mesh.Range{Start: mesh.Coord{y0, x0}, End: mesh.Coord{y1, x1}}
}

func constant(n int, v uint32) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint32(nil, v), n/4)
}

func (b *bench) values(buf *mesh.Buffer, want []uint32) {
	b.Helper()
	b.wait()
	for i, c := range b.mesh.Chips() {
		got := make([]byte, buf.On(c).Size())
		b.must(b.queue.On(c).Read(b.ctx, buf.On(c), 0, got))
		if !bytes.Equal(got, constant(len(got), want[i])) {
			b.Errorf("chip %v: buffer %q starts with %d, want %d", c.Coord, buf.Name(), binary.LittleEndian.Uint32(got), want[i])
		}
	}
}

// MeshTraceSweepTest and NonConvexGridTrace, with one program on each part instead of ten.
func TestUpstreamTraceSweep(t *testing.T) {
	if testing.Short() {
		t.Skip("several chips, too slow under the race detector; other tests take the same paths")
	}
	full, top, bottom := area(0, 0, 1, 3), area(0, 0, 0, 3), area(1, 0, 1, 3)
	column := func(x int) mesh.Range { return area(0, x, 1, x) }
	single := func(y, x int) mesh.Range { return area(y, x, y, x) }
	columns := []mesh.Range{column(0), column(1), column(2), column(3)}
	all := []mesh.Range{single(0, 0), single(0, 1), single(0, 2), single(0, 3), single(1, 0), single(1, 1), single(1, 2), single(1, 3)}
	b := twoByFour(t, reprise.WithTraceRegion(64<<20))
	buf := b.pages("words", 1)
	programs := map[string]mesh.Part{}
	for _, c := range []struct {
		name    string
		grids   [][]mesh.Range // by workload
		replays int
	}{
		{"parts", [][]mesh.Range{{full}, {column(1)}, {single(0, 2)}, {single(1, 3)}, {single(0, 0)}, {full}}, effort.Of(2, 10, 50)},
		{"columns and rows", [][]mesh.Range{{full}, columns, {top, bottom}}, effort.Of(2, 10, 50)},
		{"two, three and four columns", [][]mesh.Range{{full}, {top, bottom}, {area(0, 0, 1, 1), area(0, 2, 1, 3)}, {area(0, 0, 1, 1), column(2), column(3)}, columns}, effort.Of(2, 10, 50)},
		{"single chips", [][]mesh.Range{{full}, all, {area(0, 1, 1, 2)}, {column(2)}, {area(1, 1, 1, 2)}}, effort.Of(2, 10, 50)},
		{"non-convex grid", [][]mesh.Range{{area(0, 0, 0, 1), area(1, 2, 1, 3)}}, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := make([]uint32, b.mesh.Size())
			var xs []*mesh.Executable
			for _, grid := range c.grids {
				var parts []mesh.Part
				for _, r := range grid {
					p, ok := programs[r.String()]
					if !ok {
						p = b.adder(r.String(), buf, buf, always(1))
						p.Range = r
						programs[r.String()] = p
					}
					parts = append(parts, p)
					for i, chip := range b.mesh.Chips() {
						if r.Contains(chip.Coord) {
							want[i] += uint32(c.replays)
						}
					}
				}
				xs = append(xs, b.load("workload", parts...))
			}
			b.must(b.queue.Write(b.ctx, buf, constant(buf.Size(), 0)))
			trace := b.capture(c.name, xs...)
			for range c.replays {
				b.replay(trace)
			}
			b.values(buf, want)
			b.must(trace.Release(b.ctx))
			for _, x := range xs {
				b.must(x.Release(b.ctx))
			}
		})
	}
}

// MeshEndToEnd2x4TraceTests.EltwiseAddTest: a region of 3072 B is rounded up to a page in each
// bank.
func TestUpstreamSmallRegionOnMesh(t *testing.T) {
	b := twoByFour(t, reprise.WithTraceRegion(3072))
	in, out := b.pages("in", 2), b.pages("out", 2)
	trace := b.capture("add", b.load("add", b.adder("add", in, out, always(3))))
	b.must(errors.Join(b.queue.Write(b.ctx, in, constant(in.Size(), 2)), trace.Replay(b.ctx)))
	b.values(out, []uint32{5, 5, 5, 5, 5, 5, 5, 5})
	b.must(trace.Release(b.ctx))
}

// MeshBufferTest2x4
func TestUpstreamMeshBuffers(t *testing.T) {
	b := twoByFour(t)
	conf := func(page int, tensor, split []int) mesh.BufferConfig {
		return mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: page, Name: "buffer"}, Tensor: tensor,
			Unit: 2, Split: split}
	}
	for _, c := range []struct {
		name          string
		tensor, split []int
		local, rounds int
	}{
		{"ShardedBufferInitialization", []int{64, 128}, []int{0, 1}, 2 << 10, 1},
		{"InterleavedShardsReadWrite", []int{64, 128}, []int{0, 1}, 2 << 10, 100},
		{"RowMajorShardingAndReplication", []int{64, 128}, []int{0, mesh.Replicate}, 8 << 10, 1},
		{"ColMajorShardingAndReplication", []int{64, 128}, []int{mesh.Replicate, 1}, 4 << 10, 1},
		{"columns along the mesh's rows", []int{64, 128}, []int{1, 0}, 2 << 10, 1},
		{"ReplicatedBufferInitialization", []int{64, 128}, []int{mesh.Replicate, mesh.Replicate}, 16 << 10, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			buf := value(b.mesh.NewBuffer(conf(32, c.tensor, c.split)))(b)
			if got := buf.On(b.mesh.Chip(1, 3)).Size(); buf.Size() != 16<<10 || got != c.local {
				t.Errorf("%d B, of which a chip has %d", buf.Size(), got)
			}
			got := make([]byte, buf.Size())
			for i := range c.rounds {
				want := words(buf.Size(), uint32(i))
				b.must(b.queue.Write(b.ctx, buf, want))
				b.must(b.queue.Read(b.ctx, buf, got))
				if !bytes.Equal(got, want) {
					t.Fatalf("round %d: it comes back changed", i)
				}
			}
			at := buf.Addr()
			b.must(buf.Release())
			again := value(b.mesh.NewBuffer(conf(32, c.tensor, c.split)))(b)
			expect.Equal(t, again.Addr(), at, "the next buffer is at")
			b.must(again.Release())
		})
	}
}

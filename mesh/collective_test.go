package mesh_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
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
		if s := c.Device.Memory(allocator.DRAM); s.Allocated != 0 || c.Device.MemoryFingerprint(allocator.DRAM) != before {
			t.Errorf("chip %v: %d B are taken", c.Coord, s.Allocated)
		}
	}
	newGroup(b, 2, 64)
}

func TestCollectivesThatCannotBe(t *testing.T) {
	b := open(t, sim.P300(), mesh.Shape{1, 2})
	g := newGroup(b, 4, 64)
	large := value(b.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM,
		Size: 8192, Name: "large"}}))(b)
	fails(t, second(g.links.AllGather(b.ctx, large)), mesh.ErrTensor, "pages of 8 KiB")
	if _, err := g.links.AllReduce(b.ctx, g.buf, mesh.Replace); err == nil {
		t.Error("a sum of nothing")
	}
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
	var hi, lo arith.DstRow
	var out arith.Row
	l1 := make([]byte, 64)
	pack := arith.Pack{Mid: arith.BF16, Out: arith.BF16, Wide: true}
	switch how {
	case mesh.SumTilesFloat32: // the vector unit multiplies by one and adds
		const one = 0x3F800000
		v := arith.EncodeDst32(arith.FlushDenormal(arch.FMA(own, one, arrived)))
		hi[0], lo[0] = uint16(v>>16), uint16(v)
		pack.Mid, pack.Out = arith.FP32, arith.FP32
	case mesh.SumTilesBFloat16: // two numbers
		arith.Math{Arch: arch, A: arith.BF16, B: arith.BF16, Wide: true}.ElwAdd(&hi, &lo,
			&arith.Row{own << 16, own & 0xFFFF0000}, &arith.Row{arrived << 16, arrived & 0xFFFF0000}, false)
	default:
		return combined(how, arrived, own)
	}
	pack.Row(&out, &hi, &lo)
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

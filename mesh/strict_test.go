package mesh_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

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
			if testing.Short() {
				seeds = 1
			}
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
				b.must(trace.Replay(b.ctx))
			}
			b.must(trace.Release(b.ctx))
		} else {
			for _, x := range steps {
				b.must(b.queue.Run(b.ctx, x))
				if r.IntN(4) == 0 {
					b.must(b.queue.Wait(b.ctx))
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

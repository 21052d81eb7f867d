package mesh_test

import (
	"cmp"
	"encoding/binary"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

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
			x, err := load()
			g.must(err)
			g.must(g.queue.Run(g.ctx, x))
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
	if testing.Short() {
		t.Skip("several chips, too slow under the race detector; other tests take the same paths")
	}
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
	cards, err := ttsimtest.Start(t, ttsimtest.BlackholeX2).Cards()
	if err != nil {
		t.Fatal(err)
	}
	b := openCards(t, mesh.Cards(cards...), mesh.Shape{1, 2})
	for _, how := range []mesh.Combine{mesh.SumTilesBFloat16, mesh.SumTilesFloat32} {
		newGroup(b, 3, tileBytes(how)).tiles(1, how)
	}
}

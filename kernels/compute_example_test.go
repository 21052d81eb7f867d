package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

func TestComputeExamples(t *testing.T) {
	const n = 5
	onBackends(t, func(t *testing.T, b *bench) {
		in := []pages{random(bf16, n, 13), random(bf16, n, 14)}
		var sums []byte
		for i := range n {
			var dst arith.DstTile
			x, f := srcTile(b.arch(), in[0], i, false)
			y, _ := srcTile(b.arch(), in[1], i, false)
			arith.Math{Arch: b.arch(), A: f, B: f}.AddTile(&dst, x, y, false)
			sums = append(sums, packed(&dst, bf16, false)...)
		}
		b.same("add", b.run(source("examples/add.cpp", false), in, bf16, n, n), sums, bf16)

		got := b.run(source("examples/exp.cpp", false), in[:1], bf16, n, n)
		if worst, at := b.worst("exp", plain(bf16, in[0].data), plain(bf16, got), math.Exp, 7); worst > 0.505 {
			t.Errorf("exp of %v is off by %v units in the last place", at, worst)
		}
	})
}

func TestComputeMulticast(t *testing.T) {
	harvested := map[chip.Arch]sim.Option{ // three rows or columns are left, of which the queues take one
		chip.Wormhole:  sim.Harvesting(chip.Harvesting{Tensix: 0x3F8}),
		chip.Blackhole: sim.Harvesting(chip.Harvesting{Tensix: 0x3FF8}),
	}
	onBackendsWith(t, harvested, func(t *testing.T, b *bench) {
		const (
			cores, tiles    = 2, 4 // in each direction; of all matrices
			part            = tiles / cores
			inner, blocks   = 2, tiles / 2
			down, across    = 2, 1 // subblocks of a core, of 1 by 2 tiles
			subRows, subCol = 1, 2
			tile            = 2048
		)
		left, right := random(bf16, tiles*tiles, 15), random(bf16, tiles*tiles, 16)
		p := &reprise.Program{Name: "multicast"}
		q := b.dev.Queue(0)
		all := []chip.Range{{Start: chip.Core{X: 0, Y: 0}, End: chip.Core{X: cores - 1, Y: cores - 1}}}
		x, y, out := b.buffer(p, "left", tile, tiles*tiles), b.buffer(p, "right", tile, tiles*tiles), b.buffer(p, "out", tile, tiles*tiles)
		b.must(q.Write(b.ctx, x, 0, left.data))
		b.must(q.Write(b.ctx, y, 0, right.data))
		for cb, n := range map[int]int{0: 2 * part * inner, 1: 2 * part * inner, 16: part * part, 24: part * part} {
			p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: cb, Cores: all, PageSize: tile, Pages: n})
		}
		for id := range 4 {
			p.Semaphores = append(p.Semaphores, reprise.Semaphore{ID: id, Cores: all})
		}
		operand := func(buf *reprise.Buffer, first, row, next, rows, columns int, c, from chip.Core, others chip.Range) []uint32 {
			rect, err := b.dev.Multicast(others)
			b.must(err)
			start, end := rect.Start, rect.End
			xy, err := b.dev.Virtual(from)
			b.must(err)
			reads := uint32(0)
			if c == from {
				reads = 1
			}
			return []uint32{
				buf.Addr(), uint32(first), uint32(row), uint32(next), uint32(rows), uint32(columns), blocks, reads,
				uint32(start.X), uint32(start.Y), uint32(end.X), uint32(end.Y), cores - 1, uint32(xy.X), uint32(xy.Y),
			}
		}
		add := func(name string, im *kernels.Image, on chip.Processor, args func(chip.Core) []uint32) {
			p.Kernels = append(p.Kernels, reprise.Kernel{Name: name, Image: im, Processor: on, Cores: all, Args: args})
		}
		reader, err := kernels.Compile(b.ctx, kernels.Source{
			Path: "testdata/compute/examples/multicast_reader.cpp", Arch: b.dev.Arch(), CompileArgs: []uint32{2, tile, 2, tile},
		})
		b.must(err)
		add("reader", reader, chip.BRISC, func(c chip.Core) []uint32 {
			const last = cores - 1
			return append(
				operand(x, int(c.Y)*part*tiles, tiles, inner, part, inner, c, chip.Core{X: 0, Y: c.Y},
					chip.Range{Start: chip.Core{X: 1, Y: c.Y}, End: chip.Core{X: last, Y: c.Y}}),
				operand(y, int(c.X)*part, tiles, inner*tiles, inner, part, c, chip.Core{X: c.X, Y: 0},
					chip.Range{Start: chip.Core{X: c.X, Y: 1}, End: chip.Core{X: c.X, Y: last}})...)
		})
		compute := b.compute(kernels.ComputeSource{Source: kernels.Source{
			Path: "testdata/compute/examples/blocks.cpp", CompileArgs: []uint32{inner, down, across, subRows, subCol, blocks},
		}})
		for i, im := range compute.Images() {
			add(fmt.Sprint("compute ", i), im, chip.TRISC0+chip.Processor(i), nil)
		}
		add("writer", b.single("testdata/compute/examples/writer.cpp"), chip.NCRISC, func(c chip.Core) []uint32 {
			return []uint32{out.Addr(), uint32(int(c.Y)*part*tiles + int(c.X)*part), tiles, down, across, subRows, subCol}
		})
		b.must(q.Run(b.ctx, b.load(p)))
		bits := make([]byte, tiles*tiles*tile)
		b.must(q.Read(b.ctx, out, 0, bits))
		b.everywhere("multicast", bits)

		got, l, r := decode(bf16, bits), decode(bf16, left.data), decode(bf16, right.data)
		const side = tiles * arith.TileSide
		at := func(m []float64, row, column int) float64 {
			return m[(row/32*tiles+column/32)*arith.TileData+row%32*32+column%32]
		}
		for row := range side {
			for column := range side {
				want, size := 0.0, 0.0
				for k := range side {
					v := at(l, row, k) * at(r, k, column)
					want, size = want+v, size+math.Abs(v)
				}
				if v := at(got, row, column); math.Abs(v-want) > 0.01*size {
					t.Fatalf("row %d, column %d is %v, want %v", row, column, v, want)
				}
			}
		}
	})
}

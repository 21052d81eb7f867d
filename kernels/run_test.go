package kernels_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

// Both are structures of testdata/arithmetic.c.
type (
	operands struct {
		A, B float64
		M, N uint64
		X, Y float32
	}
	results struct {
		Sum, Difference, Product, Quotient, Widened, Converted float64
		Times, Over, Rest, Whole                               uint64
		Less                                                   int64
		Total, Rate, Share, Narrowed                           float32
	}
)

func (o *operands) results() results {
	r := results{
		o.A + o.B, o.A - o.B, o.A * o.B, o.A / o.B, float64(o.X), float64(o.M),
		o.M * o.N, o.M / o.N, o.M % o.N, 0,
		int64(o.M) / int64(o.N),
		o.X + o.Y, o.X * o.Y, o.X / o.Y, float32(o.A),
	}
	if o.A > 0 && o.A < 1e18 {
		r.Whole = uint64(o.A)
	}
	if o.A < o.B {
		r.Less--
	}
	return r
}

func TestArithmetic(t *testing.T) {
	kernels.NeedCompiler(t)
	r := rand.New(rand.NewPCG(1, 2))
	odd := []float64{0, math.Copysign(0, -1), 1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, math.SmallestNonzeroFloat64,
		math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-1022, 0x1p-126}
	var all []operands
	for i := range 200 {
		number := func(k int) float64 {
			if i < len(odd)*len(odd) {
				return odd[k%len(odd)]
			}
			return r.NormFloat64() * math.Ldexp(1, r.IntN(120)-60)
		}
		a, b := number(i), number(i/len(odd))
		all = append(all, operands{a, b, r.Uint64() >> r.IntN(64), r.Uint64()>>r.IntN(64) | 1, float32(a), float32(b)})
	}
	var in bytes.Buffer
	devtest.Must(t, binary.Write(&in, binary.LittleEndian, all))
	var want []results
	for i := range all {
		want = append(want, all[i].results())
	}
	size := binary.Size(want)
	same := cmp.Options{
		cmp.Comparer(func(x, y float64) bool { return x != x && y != y || math.Float64bits(x) == math.Float64bits(y) }),
		cmp.Comparer(func(x, y float32) bool { return x != x && y != y || math.Float32bits(x) == math.Float32bits(y) }),
	}
	for _, k := range backends(harvested) {
		t.Run(k.name, func(t *testing.T) {
			b := open(t, k)
			core := []chip.Range{chip.Single(0, 0)}
			page := in.Len() + size
			buf, err := b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: page, Sharding: &allocator.ShardSpec{
				Layout: allocator.HeightSharded, Tensor: []int{1, 1}, Shard: []int{1, 1}, Cores: core}})
			b.must(err)
			for p := chip.BRISC; p <= chip.TRISC2; p++ {
				b.must(b.dev.Queue(0).Write(b.ctx, buf, 0, append(bytes.Clone(in.Bytes()), make([]byte, size)...)))
				x := b.load(&reprise.Program{Name: "arithmetic", Buffers: []*reprise.Buffer{buf}, Kernels: []reprise.Kernel{
					kernel("arithmetic", b.single("testdata/arithmetic.c"), p, core, buf.Addr(), uint32(len(all)))}})
				b.must(b.dev.Queue(0).Run(b.ctx, x))
				out, got := make([]byte, page), make([]results, len(all))
				b.must(b.dev.Queue(0).Read(b.ctx, buf, 0, out))
				_, err := binary.Decode(out[in.Len():], binary.LittleEndian, got)
				b.must(err)
				for i := range got {
					if diff := cmp.Diff(want[i], got[i], same); diff != "" {
						t.Fatalf("%v of %+v:\n%s", p, all[i], diff)
					}
				}
				b.must(x.Release(b.ctx))
			}
		})
	}
}

func TestNocObjects(t *testing.T) {
	onBackends(t, func(t *testing.T, b *bench) {
		const n, page = 5, 2048
		q := b.dev.Queue(0)
		data := random(bf16, n, 31).data
		cores := []chip.Range{chip.Single(0, 0)}
		for _, defines := range [][]string{nil, {"NOC_OBJECTS"}} {
			p := &reprise.Program{
				Name: "copy", CircularBuffers: []reprise.CircularBuffer{{Index: 0, Cores: cores, PageSize: page, Pages: 2}},
			}
			for i, path := range []string{"copy_in.cpp", "copy_out.cpp"} {
				buf := b.buffer(p, path, page, n)
				on := []chip.Processor{chip.BRISC, chip.NCRISC}[i]
				im, err := kernels.Compile(b.ctx, kernels.Source{
					Path: "testdata/compute/examples/" + path, Arch: b.dev.Arch(), Processors: []chip.Processor{on},
					CompileArgs: []uint32{2, page}, Defines: defines, // interleaved in DRAM
				})
				b.must(err)
				p.Kernels = append(p.Kernels, kernel(path, im, on, cores, buf.Addr(), n))
			}
			b.must(q.Write(b.ctx, p.Buffers[0], 0, data))
			x := b.load(p)
			b.must(q.Run(b.ctx, x))
			got := make([]byte, len(data))
			b.must(q.Read(b.ctx, p.Buffers[1], 0, got))
			if !bytes.Equal(got, data) {
				t.Errorf("%v: the pages that were written are not those that were read", defines)
			}
			b.must(x.Release(b.ctx))
		}
	})
}

func TestLoadMetalRuns(t *testing.T) {
	for _, flags := range [][]string{{"-O2"}, {"-Os"}, {"-fno-jump-tables", "-O1", "-mcmodel=medany"}} {
		t.Run(flags[len(flags)-1], func(t *testing.T) {
			onBackends(t, func(t *testing.T, b *bench) {
				file, err := kernels.LinkMetal(b.ctx, t.TempDir(), b.dev.Arch(), flags...)
				b.must(err)
				im, err := kernels.LoadMetal(file)
				b.must(err)
				if im.Metal.LinkedAt != 0x49F0 || im.Metal.DRAMBanks != 8 || im.Metal.StoredAddresses < 3 {
					t.Errorf("%+v", im.Metal)
				}
				im.Metal = nil // it was linked with Reprise's own firmware
				b.runMetal(im)
			})
		})
	}
}

func (b *bench) runMetal(im *kernels.Image) {
	core := []chip.Range{chip.Single(0, 0)}
	p := &reprise.Program{Name: "metal", CircularBuffers: []reprise.CircularBuffer{{Index: 0, Cores: core, PageSize: 64, Pages: 1}}}
	to := b.buffer(p, "out", 64, 1)
	p.Kernels = []reprise.Kernel{
		kernel("kernel", im, chip.BRISC, core, 0),
		kernel("writer", b.prebuilt(kernels.CopyWriter), chip.NCRISC, core, to.Addr(), 0, 1, 64, 0),
	}
	x := b.load(p)
	want := []uint32{200, 25, 1, 77, 5 << 8, 25 ^ 0xFF, 11, 18, 81, 10, 42, 22, 110, 11, 1, 1}
	q := b.dev.Queue(0)
	for range 3 {
		b.must(q.Write(b.ctx, to, 0, make([]byte, 64)))
		b.must(q.Run(b.ctx, x))
		out := make([]byte, 64)
		b.must(q.Read(b.ctx, to, 0, out))
		var got []uint32
		for w := range slices.Chunk(out, 4) {
			got = append(got, binary.LittleEndian.Uint32(w))
		}
		if !slices.Equal(got, want) {
			b.t.Fatalf("got %d\nwant %d", got, want)
		}
	}
	b.must(x.Release(b.ctx))
	b.must(to.Release())
}

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

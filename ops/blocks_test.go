package ops_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

func TestMatmulInBlocks(t *testing.T) {
	effort.Long(t)
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b     [4]int
			from, to ops.DataType
			p        ops.MatmulProgram
		}{
			{[4]int{1, 1, 64, 64}, [4]int{1, 1, 64, 64}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{PerCoreM: 1, PerCoreN: 2}},
			{[4]int{1, 1, 160, 200}, [4]int{1, 1, 200, 100}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{}},
			// Three passes, of which the last has less, and parts of different sizes.
			{[4]int{1, 1, 160, 330}, [4]int{1, 1, 330, 300}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{PerCoreM: 3, PerCoreN: 5, InnerStep: 2,
				PassSteps: 2}},
			{[4]int{1, 1, 40, 330}, [4]int{1, 1, 330, 200}, ops.Float32, ops.Float32, ops.MatmulProgram{PerCoreM: 2, PerCoreN: 5, InnerStep: 3,
				PassSteps: 1}},
			// Several matrices: of one right one the left ones are one, of several a matrix comes
			// after another.
			{[4]int{2, 2, 40, 70}, [4]int{1, 1, 70, 70}, ops.BFloat16, ops.Float32, ops.MatmulProgram{}},
			{[4]int{2, 1, 70, 160}, [4]int{2, 3, 160, 100}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{PerCoreM: 2, PerCoreN: 4, InnerStep: 2,
				PassSteps: 2}},
			// Several blocks in turn, of which some are empty.
			{[4]int{1, 1, 700, 70}, [4]int{1, 1, 70, 330}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{PerCoreM: 1, PerCoreN: 1, InnerStep: 1,
				PassSteps: 2}},
		} {
			c.p.Form = ops.MatmulBlocked
			x, y := normal(c.a, c.from, uint64(2*i)), normal(c.b, c.from, uint64(2*i+1))
			tx, ty := b.put(x, ops.Tile, dram), b.put(y, ops.Tile, dram)
			got := b.get(b.ok(b.Matmul(b.ctx, tx, ty, ops.WithDataType(c.to), ops.WithMatmulProgram(c.p))))
			if want := b.engines().matmul(x, y, c.to); !slices.Equal(got, want.v) {
				b.Errorf("%v times %v, %+v: %s", c.a, c.b, c.p, first(want.v, got))
			}
		}
	})
}

func TestLinearInBlocks(t *testing.T) {
	effort.Long(t)
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b, bias [4]int
			dt         ops.DataType
			f          ops.Activation
		}{
			{[4]int{1, 1, 100, 140}, [4]int{1, 1, 140, 200}, [4]int{1, 1, 1, 200}, ops.BFloat16, ops.ReLU},
			{[4]int{1, 2, 70, 140}, [4]int{1, 1, 140, 130}, [4]int{1, 2, 1, 130}, ops.BFloat16, ops.GELU},
			{[4]int{1, 1, 70, 100}, [4]int{1, 1, 100, 130}, [4]int{1, 1, 1, 130}, ops.Float32, ops.SiLU},
		} {
			tx, ty := b.put(normal(c.a, c.dt, uint64(3*i)), ops.Tile, dram), b.put(normal(c.b, c.dt, uint64(3*i+1)), ops.Tile, dram)
			bias := b.put(normal(c.bias, c.dt, uint64(3*i+2)), ops.Tile, dram)
			want := b.get(b.ok(b.Linear(b.ctx, tx, ty, bias, ops.WithActivation(c.f),
				ops.WithMatmulProgram(ops.MatmulProgram{Form: ops.MatmulSimple}))))
			for _, p := range []ops.MatmulProgram{{Form: ops.MatmulBlocked}, {Form: ops.MatmulBlocked, PerCoreM: 3, PerCoreN: 3, InnerStep: 1,
				PassSteps: 2}} {
				out := b.ok(b.Linear(b.ctx, tx, ty, bias, ops.WithActivation(c.f), ops.WithMatmulProgram(p)))
				if got := b.get(out); !slices.Equal(got, want) {
					b.Errorf("%v times %v, %+v: %s", c.a, c.b, p, first(want, got))
				}
				other := normal(c.a, c.dt, 77)
				tr := b.capture("linear", func(ctx context.Context) error {
					return failure(b.Linear(ctx, tx, ty, bias, ops.WithActivation(c.f), ops.WithMatmulProgram(p), ops.Into(out)))
				})
				b.must(b.CopyHostToDevice(b.ctx, b.host(other), tx))
				b.must(tr.Replay(b.ctx))
				replayed := b.get(out)
				if again := b.get(b.ok(b.Linear(b.ctx, tx, ty, bias, ops.WithActivation(c.f),
					ops.WithMatmulProgram(ops.MatmulProgram{Form: ops.MatmulSimple})))); !slices.Equal(again, replayed) {
					b.Errorf("replayed: %s", first(again, replayed))
				}
				b.must(tr.Release(b.ctx))
				b.must(b.CopyHostToDevice(b.ctx, b.host(normal(c.a, c.dt, uint64(3*i))), tx))
			}
		}
	})
}

func TestNoRoomForBlocks(t *testing.T) {
	b := open(t, sim.Blackhole())
	x, y := b.zeros(dram, 640, 320), b.zeros(dram, 320, 640)
	free := b.dev.Memory(allocator.L1)
	big, err := b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 1024,
		Size: int(free.LargestHole-100<<10) / 1024 * 1024 * free.Banks, Name: "big"})
	b.must(err)
	out := b.ok(b.Matmul(b.ctx, x, y))
	tr := b.capture("product", func(ctx context.Context) error {
		return failure(b.Matmul(ctx, x, y, ops.Into(out)))
	})
	b.must(tr.Replay(b.ctx))
	if _, err := b.Matmul(b.ctx, x, y, ops.WithMatmulProgram(ops.MatmulProgram{Form: ops.MatmulBlocked})); !errors.Is(err,
		allocator.ErrOccupied) && !errors.Is(err, allocator.ErrOutOfMemory) {
		t.Error(err)
	}
	b.must(tr.Release(b.ctx))
	b.must(big.Release())
	for p, want := range map[ops.MatmulProgram]error{
		{PerCoreM: 100, PerCoreN: 100}:                         ops.ErrMemory,
		{Form: ops.MatmulBlocked, PassSteps: -1}:               ops.ErrShape,
		{Form: ops.MatmulBlocked, InnerStep: 10, PassSteps: 1}: nil,
	} {
		fails(t, failure(b.Matmul(b.ctx, x, y, ops.WithMatmulProgram(p))), want, "%+v", p)
	}
}

func first(want, got []float64) string {
	for i := range want {
		if want[i] != got[i] {
			return fmt.Sprintf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
	return cmp.Diff(len(want), len(got))
}

func TestBlocksOnSomeWorkers(t *testing.T) {
	for name, card := range cards {
		t.Run(name, func(t *testing.T) {
			longIfStrict(t, name)
			ctx := t.Context()
			dev, err := reprise.Open(ctx, card(), reprise.WithQueues(2),
				reprise.WithQueueWorkers(0, chip.Range{End: chip.Core{X: 1, Y: 1}}),
				reprise.WithQueueWorkers(1, chip.Range{Start: chip.Core{X: 2, Y: 3}, End: chip.Core{X: 4, Y: 5}}))
			devtest.Must(t, err)
			b := &bench{TB: t, ctx: ctx, dev: dev, Device: ops.New(dev, ops.WithQueue(1))}
			x, y := normal([4]int{1, 1, 160, 70}, ops.BFloat16, 1), normal([4]int{1, 1, 70, 130}, ops.BFloat16, 2)
			got := b.get(b.ok(b.Matmul(ctx, b.put(x, ops.Tile, dram), b.put(y, ops.Tile, dram),
				ops.WithMatmulProgram(ops.MatmulProgram{Form: ops.MatmulBlocked}))))
			if want := b.engines().matmul(x, y, ops.BFloat16); !slices.Equal(got, want.v) {
				t.Error(first(want.v, got))
			}
			b.must(b.Device.Release(ctx))
			b.must(dev.Close(ctx))
		})
	}
}

func TestNarrowSums(t *testing.T) {
	onBackends(t, func(b *bench) {
		x, y := normal([4]int{1, 1, 160, 330}, ops.BFloat16, 1), normal([4]int{1, 1, 330, 300}, ops.BFloat16, 2)
		tx, ty := b.put(x, ops.Tile, dram), b.put(y, ops.Tile, dram)
		e := b.engines()
		m := e.math(ops.BFloat16)
		m.Wide = false
		tiles := map[[2]int][32][32]float64{}
		want := make4([4]int{1, 1, 160, 300}, ops.BFloat16, func(_, _, h, w int) float64 {
			at := [2]int{h / 32, w / 32}
			if _, ok := tiles[at]; !ok {
				var dst arith.DstTile
				for k := 0; k < 330; k += 32 {
					m.MatmulTile(&dst, e.unpack(x, x.dims, 0, 0, h/32*32, k), e.unpack(y, y.dims, 0, 0, k, w/32*32), arith.HiFi4)
				}
				p := arith.Pack{Mid: arith.BF16, Out: arith.BF16}
				l1 := make([]byte, p.Out.TileBytes())
				p.Tile(l1, &dst)
				var out [32][32]float64
				for i := range out {
					for k := range out[i] {
						out[i][k] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(l1[2*arith.FaceOrder(i, k):])) << 16))
					}
				}
				tiles[at] = out
			}
			return tiles[at][h%32][w%32]
		})
		for _, p := range []ops.MatmulProgram{{}, {PerCoreM: 3, PerCoreN: 5, InnerStep: 2, PassSteps: 2}, {PerCoreM: 1, PerCoreN: 10}} {
			p.Form, p.NarrowSums = ops.MatmulBlocked, true
			if got := b.get(b.ok(b.Matmul(b.ctx, tx, ty, ops.WithMatmulProgram(p)))); !slices.Equal(got, want.v) {
				b.Errorf("%+v: %s", p, first(want.v, got))
			}
		}
	})
}

func TestNarrowSumsErrors(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.put(normal([4]int{1, 1, 32, 32}, ops.BFloat16, 1), ops.Tile, dram)
	for _, opts := range [][]ops.OpOption{
		{ops.WithMatmulProgram(ops.MatmulProgram{NarrowSums: true})},
		{ops.WithMatmulProgram(ops.MatmulProgram{NarrowSums: true, Form: ops.MatmulBlocked}), ops.WithTransposeB()},
	} {
		fails(t, failure(b.Matmul(b.ctx, x, x, opts...)), ops.ErrShape)
	}
	p := ops.MatmulProgram{NarrowSums: true, Form: ops.MatmulBlocked}
	fails(t, failure(b.Matmul(b.ctx, x, x, ops.WithMatmulProgram(p), ops.WithDataType(ops.Float32))), ops.ErrDataType)
}

func (b *bench) blocks(dims [4]int, seed uint64) (*ops.Tensor, *plain) {
	b.Helper()
	p := normal(dims, ops.BFloat16, seed)
	for i := range p.v {
		p.v[i] = math.Ldexp(p.v[i], i*7%11-5)
	}
	p.dtype = ops.BFloat8B
	t := b.put(p, ops.Tile, dram)
	return t, &plain{dims, ops.BFloat16, b.get(t)}
}

func TestBlocksOfWeights(t *testing.T) {
	b := open(t, sim.Wormhole())
	dims := [4]int{1, 2, 40, 70}
	p := normal(dims, ops.BFloat16, 3)
	for i := range p.v {
		p.v[i] = math.Ldexp(p.v[i], i*7%31-15)
	}
	p.v[5], p.v[300] = math.Inf(1), math.Copysign(0, -1)
	single := b.host(&plain{dims, ops.Float32, p.v})
	h := value(single.Convert(ops.BFloat8B))(b)
	fails(t, failure(h.Convert(ops.Int32)), ops.ErrDataType)
	x := b.ok(b.ToDevice(b.ctx, h, ops.Tile, dram))
	if n := x.Buffer().PageSize(); n != arith.BFP8.TileBytes() {
		t.Fatalf("a tile has %d bytes", n)
	}
	pages := make([]byte, x.Buffer().Size())
	b.must(b.dev.Queue(0).Read(b.ctx, x.Buffer(), 0, pages))
	read := b.get(x)
	at := func(n, c, h, w int) float64 { return read[((n*dims[1]+c)*dims[2]+h)*dims[3]+w] }
	page := 0
	for c := range dims[1] {
		for i := 0; i < dims[2]; i += 32 {
			for k := 0; k < dims[3]; k += 32 {
				from := tile(p, dims, 0, c, i, k)
				want := make([]byte, arith.BFP8.TileBytes())
				for n := range 64 {
					var row arith.Row
					for e := range row {
						row[e] = uint32(binary.LittleEndian.Uint16(from[32*n+2*e:]))
					}
					want[n] = arith.BFP8.StoreBlock(want[64+16*n:], &row)
				}
				got := pages[page*len(want):][:len(want)]
				if page++; !bytes.Equal(got, want) {
					t.Fatalf("tile %d differs", page-1)
				}
				var src arith.SrcTile
				(&arith.Unpack{In: arith.BFP8, Out: arith.BFP8}).Tile(&src, got)
				for y := range min(32, dims[2]-i) {
					for z := range min(32, dims[3]-k) {
						have := at(0, c, i+y, k+z)
						o := arith.FaceOrder(y, z)
						if unpacked := float64(math.Float32frombits(src[o/16][o%16])); have != unpacked {
							t.Fatalf("element %d, %d of tile %d is %v, want %v", y, z, page-1, have, unpacked)
						}
					}
				}
			}
		}
	}
}

// TestBlocksOfAnyExponent packs and unpacks all numbers in blocks of each exponent that they fit
// into.
func TestBlocksOfAnyExponent(t *testing.T) {
	for exponent := range 0x100 {
		h := &ops.Host{DType: ops.BFloat8B}
		for v := range (exponent + 1) << 8 {
			if v%15 == 0 {
				h.Data = binary.LittleEndian.AppendUint16(h.Data, uint16(exponent)<<7)
			}
			h.Data = binary.LittleEndian.AppendUint16(h.Data, uint16(v>>1|v&1<<15))
		}
		h.Data = append(h.Data, make([]byte, -len(h.Data)&31)...)
		h.Shape = []int{len(h.Data) / 32, 16}
		s := ops.Spec{Shape: h.Shape, DType: h.DType, Layout: ops.Tile, Memory: dram}
		pages := value(s.Encode(h))(t)
		back := value(s.Decode(pages))(t)
		number := func(v float32) float64 { return min(max(float64(v), -0x1p128), 0x1p128) }
		bound := math.Ldexp(1, max(exponent-134, -126))
		got := ops.Values[float32](back)
		for i, v := range ops.Values[float32](h) {
			if g := got[i]; g != v && !(math.Abs(number(v)-number(g)) <= bound) && (v == v || g == g) {
				t.Fatalf("%g became %g in a block of exponent %d", v, g, exponent)
			}
		}
	}
}

func TestMatmulOfBlockWeights(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b     [4]int
			from, to ops.DataType
			p        ops.MatmulProgram
		}{
			{[4]int{1, 1, 20, 32}, [4]int{1, 1, 32, 20}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{}},
			{[4]int{1, 2, 40, 300}, [4]int{1, 1, 300, 200}, ops.BFloat16, ops.Float32, ops.MatmulProgram{PerCoreM: 2, PerCoreN: 5, InnerStep: 2,
				PassSteps: 2}},
			{[4]int{2, 1, 40, 70}, [4]int{2, 1, 70, 40}, ops.Float32, ops.BFloat16, ops.MatmulProgram{}},
			{[4]int{1, 1, 40, 70}, [4]int{1, 1, 70, 40}, ops.Float32, ops.Float32, ops.MatmulProgram{Form: ops.MatmulSimple}},
		} {
			x := normal(c.a, c.from, uint64(2*i))
			tx := b.put(x, ops.Tile, dram)
			ty, y := b.blocks(c.b, uint64(2*i+1))
			got := b.get(b.ok(b.Matmul(b.ctx, tx, ty, ops.WithDataType(c.to), ops.WithMatmulProgram(c.p))))
			if want := b.engines().matmul(x, y, c.to); !slices.Equal(got, want.v) {
				b.Errorf("%v times %v: %s", c.a, c.b, first(want.v, got))
			}
		}
		x, bias := normal([4]int{1, 1, 50, 70}, ops.BFloat16, 1), normal([4]int{1, 1, 1, 100}, ops.BFloat16, 2)
		ty, y := b.blocks([4]int{1, 1, 70, 100}, 3)
		relu := func(v uint32) uint32 {
			if arith.TotalOrder(v) > 0 {
				return v
			}
			return 0
		}
		got := b.get(b.ok(b.Linear(b.ctx, b.put(x, ops.Tile, dram), ty, b.put(bias, ops.Tile, dram), ops.WithActivation(ops.ReLU))))
		if want := b.engines().linear(x, y, bias, relu); !slices.Equal(got, want.v) {
			b.Errorf("linear: %s", first(want.v, got))
		}
	})
}

func TestBlocksAreWeightsOnly(t *testing.T) {
	b := open(t, sim.Blackhole())
	w, _ := b.blocks([4]int{1, 1, 32, 32}, 1)
	x := b.zeros(dram, 32, 32)
	rows := b.ok(b.ToLayout(b.ctx, x, ops.RowMajor))
	h := value(ops.NewHost([]int{32, 32}, ops.BFloat8B, make([]float32, 1024)))(b)
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	b.refused(before, map[string]refusal{
		"in rows":           {failure(b.ToDevice(b.ctx, h, ops.RowMajor, dram)), ops.ErrMemory},
		"add":               {failure(b.Add(b.ctx, w, w)), ops.ErrDataType},
		"left of a product": {failure(b.Matmul(b.ctx, w, x)), ops.ErrDataType},
		"both":              {failure(b.Matmul(b.ctx, w, w)), ops.ErrDataType},
		"times rows":        {failure(b.Matmul(b.ctx, rows, w)), ops.ErrMemory},
		"to other layouts":  {failure(b.ToLayout(b.ctx, w, ops.RowMajor)), ops.ErrDataType},
		"in shards of rows": {failure(b.ToDevice(b.ctx, h, ops.RowMajor, ops.Sharded(allocator.HeightSharded, 32, 32, chip.Grid(1, 1)))),
			ops.ErrMemory},
		"result": {failure(b.Matmul(b.ctx, x, x, ops.WithDataType(ops.BFloat8B))), ops.ErrDataType},
	})
}

func (e engines) linear(a, b, bias *plain, f func(uint32) uint32) *plain {
	d := [4]int{max(a.dims[0], b.dims[0]), max(a.dims[1], b.dims[1]), a.dims[2], b.dims[3]}
	ones := make4([4]int{1, 1, 32, 32}, a.dtype, func(_, _, _, w int) float64 {
		if w == 0 {
			return 1
		}
		return 0
	})
	return e.tiles(d, a.dtype, func(dst *arith.DstTile, n, c, h, w int) {
		m := e.math(a.dtype)
		for k := 0; k < a.dims[3]; k += 32 {
			m.MatmulTile(dst, e.unpack(a, a.dims, n, c, h, k), e.unpack(b, b.dims, n, c, k, w), arith.HiFi4)
		}
		m.MatmulTile(dst, e.unpack(ones, ones.dims, 0, 0, 0, 0), e.unpack(bias, bias.dims, n, c, 0, w), arith.HiFi4)
		for i := range dst.Hi {
			for k := range dst.Hi[i] {
				v := arith.EncodeDst32(f(arith.DecodeDst32(uint32(dst.Hi[i][k])<<16 | uint32(dst.Lo[i][k]))))
				dst.Hi[i][k], dst.Lo[i][k] = uint16(v>>16), uint16(v)
			}
		}
	})
}

func TestLinear(t *testing.T) {
	relu := func(v uint32) uint32 {
		if arith.TotalOrder(v) > 0 {
			return v
		}
		return 0
	}
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b, bias [4]int
			dt         ops.DataType
			opts       []ops.OpOption
			f          func(uint32) uint32
		}{
			{[4]int{1, 1, 40, 70}, [4]int{1, 1, 70, 200}, [4]int{1, 1, 1, 200}, ops.BFloat16, nil, func(v uint32) uint32 { return v }},
			{[4]int{1, 2, 5, 64}, [4]int{1, 1, 64, 33}, [4]int{1, 2, 1, 33}, ops.BFloat16, []ops.OpOption{ops.WithActivation(ops.ReLU)}, relu},
			{[4]int{1, 1, 5, 64}, [4]int{1, 1, 64, 33}, [4]int{1, 1, 1, 33}, ops.Float32, []ops.OpOption{ops.WithActivation(ops.ReLU)}, relu},
		} {
			x, y, z := normal(c.a, c.dt, uint64(3*i)), normal(c.b, c.dt, uint64(3*i+1)), normal(c.bias, c.dt, uint64(3*i+2))
			got := b.get(b.ok(b.Linear(b.ctx, b.put(x, ops.Tile, dram), b.put(y, ops.Tile, dram), b.put(z, ops.Tile, dram), c.opts...)))
			equal(b, b.engines().linear(x, y, z, c.f).v, got, "%v times %v", c.a, c.b)
		}
	})
}

func TestFunctionsOfElements(t *testing.T) {
	onBackends(t, func(b *bench) {
		x := normal([4]int{1, 1, 33, 40}, ops.BFloat16, 1)
		positive := abs(x)
		halves := make4(x.dims, x.dtype, func(n, c, h, w int) float64 {
			if w%5 == 0 {
				return float64(h%8) - 3.5
			}
			return fit(x.dtype, 0, float32(3*x.at(n, c, h, w)))
		})
		for _, f := range []struct {
			name   string
			device func(context.Context, *ops.Tensor, ...ops.OpOption) (*ops.Tensor, error)
			exact  func(float64) float64
			in     *plain
		}{
			{"abs", b.Abs, math.Abs, x},
			{"ceil", b.Ceil, math.Ceil, halves},
			{"floor", b.Floor, math.Floor, halves},
			{"frac", b.Frac, func(v float64) float64 { return v - math.Trunc(v) }, halves},
			{"round", b.Round, math.RoundToEven, halves},
			{"trunc", b.Trunc, math.Trunc, halves},
			{"exp", b.Exp, math.Exp, x},
			{"gelu", b.Gelu, func(v float64) float64 { return v * math.Erfc(-v/math.Sqrt2) / 2 }, x},
			{"log", b.Device.Log, math.Log, positive},
			{"neg", b.Neg, func(v float64) float64 { return -v }, x},
			{"reciprocal", b.Reciprocal, func(v float64) float64 { return 1 / v }, x},
			{"rsqrt", b.Rsqrt, func(v float64) float64 { return 1 / math.Sqrt(v) }, positive},
			{"sigmoid", b.Sigmoid, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }, x},
			{"sign", b.Sign, func(v float64) float64 { return math.Copysign(1, v) }, x},
			{"silu", b.Silu, func(v float64) float64 { return v / (1 + math.Exp(-v)) }, x},
			{"sqrt", b.Sqrt, math.Sqrt, positive},
			{"square", b.Square, func(v float64) float64 { return v * v }, x},
			{"tanh", b.Tanh, math.Tanh, x},
		} {
			for _, dt := range []ops.DataType{ops.BFloat16, ops.Float32} {
				in := &plain{f.in.dims, dt, f.in.v}
				got := b.get(b.ok(f.device(b.ctx, b.put(in, ops.Tile, dram))))
				b.everywhere(f.name+" of "+dt.String(), got)
				for i, v := range in.v {
					want := f.exact(v)
					exponent := max(math.Floor(math.Log2(math.Abs(want))), -126)
					tolerance := 0.505 * math.Exp2(exponent-7)
					if dt == ops.Float32 {
						tolerance = 200 * math.Exp2(exponent-23)
					}
					if !(math.Abs(got[i]-want) <= tolerance) {
						b.Errorf("%s of %v as %v is %v, want %v", f.name, v, dt, got[i], want)
						break
					}
				}
			}
		}
	})
}

func abs(p *plain) *plain {
	return make4(p.dims, p.dtype, func(n, c, h, w int) float64 { return math.Abs(p.at(n, c, h, w)) })
}

func TestOnlyOnTheEngines(t *testing.T) {
	b := open(t, sim.Wormhole())
	tiles := b.zeros(dram, 32, 32)
	rows, ints := b.ok(b.ToLayout(b.ctx, tiles, ops.RowMajor)),
		b.ok(b.Empty(b.ctx, ops.Spec{Shape: []int{32, 32}, DType: ops.UInt32, Layout: ops.Tile, Memory: dram}))
	bias := b.zeros(dram, 2, 32)
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	b.refused(before, map[string]refusal{
		"rows":             {failure(b.Exp(b.ctx, rows)), ops.ErrMemory},
		"integers":         {failure(b.Exp(b.ctx, ints)), ops.ErrDataType},
		"into rows":        {failure(b.Exp(b.ctx, tiles, ops.Into(rows))), ops.ErrMemory},
		"linear of rows":   {failure(b.Linear(b.ctx, rows, tiles, nil)), ops.ErrMemory},
		"a bias of 2 rows": {failure(b.Linear(b.ctx, tiles, tiles, bias)), ops.ErrShape},
	})
}

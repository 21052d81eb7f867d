package ops_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

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
	h, err := single.Convert(ops.BFloat8B)
	b.must(err)
	if _, err := h.Convert(ops.Int32); !errors.Is(err, ops.ErrDataType) {
		t.Error(err)
	}
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
		pages, err := s.Encode(h)
		devtest.Must(t, err)
		back, err := s.Decode(pages)
		devtest.Must(t, err)
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
	h, err := ops.NewHost([]int{32, 32}, ops.BFloat8B, make([]float32, 1024))
	b.must(err)
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

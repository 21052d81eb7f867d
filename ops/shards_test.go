package ops_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

func circulars(g *graph.Graph) (out []string) {
	for _, n := range only(g, graph.CircularAllocate) {
		out = append(out, n.Params["globally_allocated"]+" "+n.Params["address"])
	}
	return out
}

func (b *bench) counted(m ops.MemoryConfig, l ops.Layout, dt ops.DataType, factor float32, shape ...int) *ops.Tensor {
	b.Helper()
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = factor * float32(i%100)
	}
	h, err := ops.NewHost(shape, dt, v)
	b.must(err)
	return b.ok(b.ToDevice(b.ctx, h, l, m))
}

func TestShardsAreComputedInPlace(t *testing.T) {
	grid := chip.Grid(2, 2)
	for name, c := range map[string]struct {
		memory ops.MemoryConfig
		layout ops.Layout
		dtype  ops.DataType
	}{
		"block, tiles of bfloat16": {ops.Sharded(allocator.BlockSharded, 32, 32, grid), ops.Tile, ops.BFloat16},
		"width, rows of uint32":    {ops.Sharded(allocator.WidthSharded, 8, 16, grid), ops.RowMajor, ops.UInt32},
		"block, rows of int32":     {ops.Sharded(allocator.BlockSharded, 4, 32, grid), ops.RowMajor, ops.Int32},
		"height, bytes":            {ops.Sharded(allocator.HeightSharded, 2, 64, grid), ops.RowMajor, ops.UInt8},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, sim.Blackhole())
			run := func(what string, want func(i int) float32, f func() (*ops.Tensor, error), in ...*ops.Tensor) {
				t.Helper()
				capture := b.BeginCapture(graph.Config{})
				out := b.ok(f())
				var at []string
				for _, x := range append([]*ops.Tensor{out}, in...) {
					at = append(at, fmt.Sprint("1 ", x.Address()))
				}
				equal(t, at, circulars(b.report(capture).Graph), what)
				h, err := b.ToHost(b.ctx, out)
				b.must(err)
				v := make([]float32, h.Shape[0]*64)
				for i := range v {
					v[i] = want(i % 100)
				}
				w, err := ops.NewHost(h.Shape, c.dtype, v)
				b.must(err)
				if !slices.Equal(w.Data, h.Data) {
					t.Errorf("%s: the result is wrong", what)
				}
			}
			rows := 8
			if c.layout == ops.Tile {
				rows = 64
			}
			x, y := b.counted(c.memory, c.layout, c.dtype, 1, rows, 64), b.counted(c.memory, c.layout, c.dtype, 2, rows, 64)
			sum := func(i int) float32 { return float32(3 * i) }
			switch c.dtype {
			case ops.BFloat16: // the packers of the engines round ties away from zero
				sum = func(i int) float32 { return math.Float32frombits((math.Float32bits(float32(3*i)) + 0x8000) &^ 0xFFFF) }
			case ops.UInt8:
				sum = func(i int) float32 { return float32(3 * i % 256) }
			}
			run("sum", sum, func() (*ops.Tensor, error) { return b.Add(b.ctx, x, y) }, x, y)
			entries := b.ProgramCacheEntries()
			run("sum of others", sum, func() (*ops.Tensor, error) { return b.Add(b.ctx, y, x) }, y, x)
			if n := b.ProgramCacheEntries(); n != entries {
				t.Errorf("%d programs, there were %d", n, entries)
			}
			run("double", func(i int) float32 { return float32(2 * i) }, func() (*ops.Tensor, error) { return b.Add(b.ctx, x, x) }, x)
			run("relu", func(i int) float32 { return float32(i) }, func() (*ops.Tensor, error) { return b.Relu(b.ctx, x) }, x)
			// A trace keeps the addresses that it was recorded with.
			into, other := b.ok(b.Empty(b.ctx, x.Spec())), b.ok(b.Empty(b.ctx, x.Spec()))
			tr, err := b.Capture(b.ctx, "sum", func(ctx context.Context) error {
				return failure(b.Add(ctx, x, y, ops.Into(into)))
			})
			b.must(err)
			b.ok(b.Add(b.ctx, y, y, ops.Into(other)))
			b.must(tr.Replay(b.ctx))
			b.must(tr.Replay(b.ctx))
			h, err := b.ToHost(b.ctx, into)
			b.must(err)
			if got := ops.Values[float32](h)[:4]; !slices.Equal(got, []float32{0, 3, 6, 9}) {
				t.Errorf("the trace gave %v", got)
			}
			b.must(tr.Release(b.ctx))
		})
	}
}

func TestShardsThatDiffer(t *testing.T) {
	b := open(t, sim.Wormhole())
	high, wide := ops.Sharded(allocator.HeightSharded, 32, 64, chip.Grid(2, 1)),
		ops.Sharded(allocator.WidthSharded, 64, 32, chip.Grid(2, 1))
	rest := ops.Sharded(allocator.HeightSharded, 40, 64, chip.Grid(2, 1))
	for name, m := range map[string][2]ops.MemoryConfig{"other shards": {high, wide}, "a shard that isn't full": {rest, rest}} {
		x, y := b.counted(m[0], ops.RowMajor, ops.Int32, 1, 64, 64), b.counted(m[1], ops.RowMajor, ops.Int32, 10, 64, 64)
		capture := b.BeginCapture(graph.Config{})
		sum := b.ok(b.Add(b.ctx, x, y))
		for _, c := range circulars(b.report(capture).Graph) {
			if c[0] != '0' {
				t.Errorf("%s: a circular buffer in a tensor: %s", name, c)
			}
		}
		h, err := b.ToHost(b.ctx, sum)
		b.must(err)
		for i, v := range ops.Values[int32](h) {
			if v != int32(i%100*11) {
				t.Fatalf("%s: element %d is %d", name, i, v)
			}
		}
	}
}

func TestConcatOfMany(t *testing.T) {
	b := open(t, sim.Wormhole())
	part := func(i, dim int, l ops.Layout) *ops.Tensor {
		shape := []int{2, 3, 5}
		shape[dim] = 1 + i%4
		return b.counted(dram, l, ops.UInt16, float32(i+1), shape...)
	}
	for _, c := range []struct {
		n, dim, programs int
		layout           ops.Layout
	}{{3, 0, 1, ops.RowMajor}, {5, 2, 1, ops.Tile}, {16, 1, 1, ops.RowMajor}, {17, 2, 2, ops.RowMajor}, {4, -1, 1, ops.RowMajor}} {
		t.Run(fmt.Sprintf("%d along %d", c.n, c.dim), func(t *testing.T) {
			dim := (c.dim + 3) % 3
			var in []*ops.Tensor
			whole := []int{2, 3, 5}
			whole[dim] = 0
			for i := range c.n {
				in = append(in, part(i, dim, c.layout))
				whole[dim] += in[i].Shape()[dim]
			}
			var want []float32
			for at := [3]int{}; at[0] < whole[0]; {
				i, k := 0, at
				shape := in[0].Shape()
				for k[dim] >= shape[dim] {
					k[dim] -= shape[dim]
					i++
					shape = in[i].Shape()
				}
				want = append(want, float32(i+1)*float32(((k[0]*shape[1]+k[1])*shape[2]+k[2])%100))
				for d := 2; d >= 0; d-- {
					if at[d]++; at[d] < whole[d] || d == 0 {
						break
					}
					at[d] = 0
				}
			}
			capture := b.BeginCapture(graph.Config{})
			out := b.ok(b.Concat(b.ctx, in, c.dim))
			programs := 0
			for _, name := range graph.CallTrace(b.report(capture).Graph) {
				if name == "ConcatDeviceOperation" {
					programs++
				}
			}
			if programs != c.programs {
				t.Errorf("%d programs, want %d", programs, c.programs)
			}
			is := func(x *ops.Tensor) {
				t.Helper()
				h, err := b.ToHost(b.ctx, x)
				b.must(err)
				equal(t, want, ops.Values[float32](h))
			}
			is(out)
			if c.programs > 1 {
				return
			}
			into := b.ok(b.Empty(b.ctx, out.Spec()))
			tr, err := b.Capture(b.ctx, "concat", func(ctx context.Context) error {
				return failure(b.Concat(ctx, in, c.dim, ops.Into(into)))
			})
			b.must(err)
			b.must(tr.Replay(b.ctx))
			is(into)
			b.must(tr.Release(b.ctx))
		})
	}
}

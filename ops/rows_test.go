package ops_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

var results sync.Map // by chip and what was computed

func (b *bench) everywhere(what string, got []float64) {
	b.Helper()
	before, _ := results.LoadOrStore(fmt.Sprint(b.dev.Arch(), " ", what), got)
	if !slices.EqualFunc(before.([]float64), got, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }) {
		b.Errorf("%s: not the result of another backend", what)
	}
}

// The bounds are 2^-11 of the sum of absolute values, and 2^-8 of the result for rounding to
// bfloat16; the 1/n of means has 2^-9 too. Of Float32 elements, sums have an error of 2^-9 of each,
// and maxima 2^-10. Over the first two dimensions the bound is 2^-20 of the sum.
func TestReductions(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, dims := range [][4]int{{1, 1, 32, 32}, {1, 2, 40, 70}, {2, 1, 100, 5}, {1, 1, 1, 300}, {3, 2, 40, 33}, {1, 5, 7, 70}} {
			for _, dt := range []ops.DataType{ops.BFloat16, ops.Float32} {
				x := normal(dims, dt, uint64(i))
				for j := range x.v {
					x.v[j] = fit(dt, 0, float32(x.v[j]-2)) // mostly negative, so that padding would be the largest
				}
				tx := b.put(x, ops.Tile, dram)
				for along, n := range dims {
					if along < 2 && i < 4 {
						continue
					}
					d, dim := dims, along-4
					d[along] = 1
					for name, f := range map[string]func(t *ops.Tensor) (*ops.Tensor, error){
						"sum":  func(t *ops.Tensor) (*ops.Tensor, error) { return b.Sum(b.ctx, t, dim) },
						"mean": func(t *ops.Tensor) (*ops.Tensor, error) { return b.Mean(b.ctx, t, dim) },
						"max":  func(t *ops.Tensor) (*ops.Tensor, error) { return b.Max(b.ctx, t, dim) },
					} {
						got, at := b.get(b.ok(f(tx))), 0
						what := fmt.Sprintf("%s of %v %v along %d", name, dt, dims, dim)
						make4(d, dt, func(n4, c, h, w int) float64 {
							sum, size, most := 0., 0., math.Inf(-1)
							from := [4]int{n4, c, h, w}
							for from[along] = range n {
								v := x.at(from[0], from[1], from[2], from[3])
								sum, size, most = sum+v, size+math.Abs(v), max(most, v)
							}
							want, tolerance := most, 0.
							switch name {
							case "mean":
								sum, size = sum/float64(n), size/float64(n)
								fallthrough
							case "sum":
								want, tolerance = sum, size/(1<<11)
								if along < 2 {
									tolerance = size / (1 << 20)
								} else if name == "mean" {
									tolerance += math.Abs(sum) / (1 << 9)
								}
								if dt == ops.BFloat16 {
									tolerance += math.Abs(sum) / (1 << 8)
								}
							}
							if dt == ops.Float32 && along >= 2 {
								tolerance += size / (1 << 9)
								if name == "max" {
									tolerance = math.Abs(want) / (1 << 10)
								}
							}
							if at < len(got) && !(math.Abs(got[at]-want) <= tolerance) {
								b.Errorf("%s: element %d is %v, want %v", what, at, got[at], want)
								at = len(got)
							}
							at++
							return 0
						})
						b.everywhere(what, got)
					}
				}
			}
		}
	})
}

func (b *bench) near(what string, dt ops.DataType, got, want []float64, relative, absolute float64) {
	b.Helper()
	expect.Equal(b, off(dt, got, want, relative, absolute), "", "%s", what)
}

func softmax(x, mask *plain, scale float64) *plain {
	at := func(n, c, h, w int) float64 {
		v := x.at(n, c, h, w) * scale
		if mask != nil {
			v += mask.at(n, c, h, w)
		}
		return v
	}
	var most, sum float64 // of the row
	return make4(x.dims, x.dtype, func(n, c, h, w int) float64 {
		if w == 0 {
			most, sum = math.Inf(-1), 0
			for k := range x.dims[3] {
				most = max(most, at(n, c, h, k))
			}
			for k := range x.dims[3] {
				sum += math.Exp(at(n, c, h, k) - most)
			}
		}
		return math.Exp(at(n, c, h, w)-most) / sum
	})
}

// e^x has an error of 2^-21 and one of 2^-24 of x, the reciprocal of the sum one of 2^-22.
func TestSoftmax(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			dims, mask [4]int
			dt         ops.DataType
			scale      float32
		}{
			{dims: [4]int{1, 1, 32, 32}, dt: ops.BFloat16},
			{dims: [4]int{1, 2, 40, 70}, dt: ops.BFloat16},
			{dims: [4]int{1, 2, 40, 70}, dt: ops.Float32},
			{dims: [4]int{2, 3, 5, 1}, dt: ops.Float32},
			{dims: [4]int{1, 1, 1, 300}, dt: ops.BFloat16, scale: 0.125},
			{dims: [4]int{1, 1, 3, 70}, dt: ops.BFloat16, scale: -0.5},
			{dims: [4]int{1, 1, 32, 2900}, dt: ops.BFloat16}, // resident, without room for exponentials
			{dims: [4]int{1, 2, 33, 65}, mask: [4]int{1, 1, 33, 65}, dt: ops.Float32, scale: -2},
			{dims: [4]int{2, 2, 33, 65}, mask: [4]int{1, 1, 33, 65}, dt: ops.BFloat16, scale: 0.125},
			{dims: [4]int{2, 2, 33, 65}, mask: [4]int{2, 1, 1, 65}, dt: ops.Float32, scale: 3},
			{dims: [4]int{1, 1, 2, 4170}, mask: [4]int{1, 1, 2, 4170}, dt: ops.BFloat16, scale: 1},
		} {
			x := normal(c.dims, c.dt, uint64(i))
			for j := range x.v {
				x.v[j] = fit(c.dt, 0, float32(8*x.v[j]-1000)) // padding would be the largest; without the maximum all would be 0
			}
			tx := b.put(x, ops.Tile, dram)
			what := fmt.Sprintf("softmax of %v %v, mask %v", c.dt, c.dims, c.mask)
			var got *ops.Tensor
			var mask *plain
			switch {
			case c.scale == 0:
				c.scale = 1
				got = b.ok(b.Softmax(b.ctx, tx, -1))
			case c.mask[3] == 0:
				got = b.ok(b.ScaleMaskSoftmax(b.ctx, tx, nil, c.scale))
			default:
				mask = make4(c.mask, c.dt, func(_, _, h, w int) float64 {
					if w > h+1 && w%3 == 0 {
						return math.Inf(-1)
					}
					return float64(w % 4)
				})
				got = b.ok(b.ScaleMaskSoftmax(b.ctx, tx, b.put(mask, ops.Tile, l1), c.scale))
			}
			v := b.get(got)
			b.everywhere(what, v)
			relative := 0x1p-18
			if mask != nil || c.scale != 1 {
				relative += 0x1p-23 * 1100 * math.Abs(float64(c.scale))
			}
			b.near(what, c.dt, v, softmax(x, mask, float64(c.scale)).v, relative, 0x1p-126)
		}
	})
}

func normalised(x, gamma, beta *plain, eps float64, keepMean bool) *plain {
	n := float64(x.dims[3])
	return make4(x.dims, x.dtype, func(m, c, h, w int) float64 {
		mean, square := 0., 0.
		for k := range x.dims[3] {
			mean += x.at(m, c, h, k) / n
		}
		if keepMean {
			mean = 0
		}
		for k := range x.dims[3] {
			square += math.Pow(x.at(m, c, h, k)-mean, 2) / n
		}
		v := (x.at(m, c, h, w) - mean) / math.Sqrt(square+eps)
		if gamma != nil {
			v *= gamma.at(0, 0, 0, w)
		}
		if beta != nil {
			v += beta.at(0, 0, 0, w)
		}
		return v
	})
}

func TestNorms(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			dims        [4]int
			dt          ops.DataType
			gamma, beta bool
		}{
			{[4]int{1, 1, 32, 32}, ops.BFloat16, false, false},
			{[4]int{1, 2, 40, 70}, ops.BFloat16, true, true},
			{[4]int{1, 2, 40, 70}, ops.Float32, true, true},
			{[4]int{2, 1, 3, 129}, ops.Float32, true, false},
			{[4]int{1, 3, 33, 5}, ops.BFloat16, false, true},
			{[4]int{1, 1, 2, 1400}, ops.Float32, true, true},
		} {
			x := normal(c.dims, c.dt, uint64(i))
			for j := range x.v {
				x.v[j] = fit(c.dt, 0, float32(2*x.v[j]+3))
			}
			put := func(p *plain) *ops.Tensor { return b.put(p, ops.Tile, dram) }
			tx := put(x)
			weights := func(use bool, seed uint64) (*plain, *ops.Tensor) {
				if !use {
					return nil, nil
				}
				p := normal([4]int{1, 1, 1, c.dims[3]}, c.dt, seed)
				return p, put(p)
			}
			gamma, tg := weights(c.gamma, 100)
			beta, tb := weights(c.beta, 200)
			what := fmt.Sprintf("layer norm of %v %v", c.dt, c.dims)
			got := b.get(b.ok(b.LayerNorm(b.ctx, tx, tg, tb, 1e-5)))
			b.everywhere(what, got)
			b.near(what, c.dt, got, normalised(x, gamma, beta, 1e-5, false).v, 0x1p-18, 0x1p-17)
			what = fmt.Sprintf("RMS norm of %v %v", c.dt, c.dims)
			got = b.get(b.ok(b.RMSNorm(b.ctx, tx, tg, 1e-5)))
			b.everywhere(what, got)
			b.near(what, c.dt, got, normalised(x, gamma, nil, 1e-5, true).v, 0x1p-18, 0x1p-126)
		}
	})
}

func TestRowsRefused(t *testing.T) {
	b := open(t, sim.Blackhole())
	tiles, row, other := b.zeros(dram, 2, 64), b.zeros(dram, 1, 64), b.zeros(dram, 1, 32)
	rows := b.ok(b.ToLayout(b.ctx, tiles, ops.RowMajor))
	wide := b.ok(b.Empty(b.ctx, ops.Spec{Shape: []int{1, 64}, DType: ops.Float32, Layout: ops.Tile, Memory: dram}))
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	b.refused(before, map[string]refusal{
		"another dimension":     {failure(b.Softmax(b.ctx, tiles, 4)), ops.ErrShape},
		"rows":                  {failure(b.Softmax(b.ctx, rows, -1)), ops.ErrMemory},
		"a mask of rows":        {failure(b.ScaleMaskSoftmax(b.ctx, tiles, rows, 1)), ops.ErrMemory},
		"a narrow mask":         {failure(b.ScaleMaskSoftmax(b.ctx, tiles, other, 1)), ops.ErrShape},
		"a mask of fp32":        {failure(b.ScaleMaskSoftmax(b.ctx, tiles, wide, 1)), ops.ErrDataType},
		"a scale of 0":          {failure(b.ScaleMaskSoftmax(b.ctx, tiles, row, 0)), ops.ErrShape},
		"an infinite scale":     {failure(b.ScaleMaskSoftmax(b.ctx, tiles, row, float32(math.Inf(1)))), ops.ErrShape},
		"into rows":             {failure(b.Softmax(b.ctx, tiles, -1, ops.Into(rows))), ops.ErrMemory},
		"norm of rows":          {failure(b.LayerNorm(b.ctx, rows, nil, nil, 0)), ops.ErrMemory},
		"weights of two rows":   {failure(b.LayerNorm(b.ctx, tiles, row, tiles, 0)), ops.ErrShape},
		"narrow weights":        {failure(b.RMSNorm(b.ctx, tiles, other, 0)), ops.ErrShape},
		"weights of fp32":       {failure(b.RMSNorm(b.ctx, tiles, wide, 0)), ops.ErrDataType},
		"a negative eps":        {failure(b.RMSNorm(b.ctx, tiles, row, -1)), ops.ErrShape},
		"an eps of NaN":         {failure(b.RMSNorm(b.ctx, tiles, row, float32(math.NaN()))), ops.ErrShape},
		"a norm into its input": {failure(b.RMSNorm(b.ctx, tiles, row, 0, ops.Into(tiles))), ops.ErrMemory},
	})
}

func swapped(p *plain, dim int) *plain {
	order := [4]int{0, 1, 2, 3}
	order[dim], order[3] = 3, dim
	return permute(p, order)
}

func least(a *plain, k int) (values, indices *plain) {
	negative := make4(a.dims, a.dtype, func(n, c, h, w int) float64 { return -a.at(n, c, h, w) })
	values, indices = topK(negative, k)
	for i, v := range values.v {
		values.v[i] = -v
	}
	return values, indices
}

func TestAlongOtherDimensions(t *testing.T) {
	effort.Long(t)
	onBackends(t, func(b *bench) {
		dims := [4]int{2, 3, 33, 5}
		if strings.Contains(b.Name(), "strict") && !effort.Hours {
			dims = [4]int{2, 2, 9, 3}
		}
		for dim := range 4 {
			for _, l := range []ops.Layout{ops.Tile, ops.RowMajor} {
				x := normal(dims, ops.BFloat16, uint64(dim))
				tx := b.put(x, l, dram)
				check := func(what string, want []float64, got *ops.Tensor, into func(ctx context.Context, t *ops.Tensor) error) {
					b.Helper()
					if have := b.get(got); !slices.Equal(have, want) {
						b.Errorf("%s along %d of %v: %s", what, dim, l, first(want, have))
					}
					again := b.ok(b.Empty(b.ctx, got.Spec()))
					tr := b.capture(what, func(ctx context.Context) error { return into(ctx, again) })
					b.must(tr.Replay(b.ctx))
					if have := b.get(again); !slices.Equal(have, want) {
						b.Errorf("%s along %d of %v, replayed: %s", what, dim, l, first(want, have))
					}
					b.must(tr.Release(b.ctx))
				}
				if l == ops.Tile {
					want := softmax(swapped(x, dim), nil, 1)
					got := b.ok(b.Softmax(b.ctx, tx, dim-4))
					exact := b.get(got)
					b.near("softmax", x.dtype, exact, swapped(want, dim).v, 0x1p-18, 0x1p-126)
					check("softmax", exact, got, func(ctx context.Context, t *ops.Tensor) error {
						return failure(b.Softmax(ctx, tx, dim, ops.Into(t)))
					})
				}
				_, most := topK(swapped(x, dim), 1)
				for _, keep := range []bool{false, true} {
					got := b.ok(b.ArgMax(b.ctx, tx, keep, ops.WithDim(dim)))
					shape := slices.Clone(dims[:])
					if shape[dim] = 1; !keep {
						shape = slices.Delete(shape, dim, dim+1)
					}
					expect.NoDiff(b, got.Shape(), shape, "argmax along %d", dim)
					check("argmax", swapped(most, dim).v, got, func(ctx context.Context, t *ops.Tensor) error {
						return failure(b.ArgMax(ctx, tx, keep, ops.WithDim(dim-4), ops.Into(t)))
					})
				}
				for _, smallest := range []bool{false, true} {
					opts, find := []ops.OpOption{ops.WithDim(dim)}, topK
					if smallest {
						opts, find = append(opts, ops.WithSmallest()), least
					}
					values, indices := find(swapped(x, dim), 2)
					v, i, err := b.TopK(b.ctx, tx, 2, opts...)
					b.must(err)
					check(fmt.Sprintf("values, smallest %t,", smallest), swapped(values, dim).v, v,
						func(ctx context.Context, t *ops.Tensor) error {
							_, _, err := b.TopK(ctx, tx, 2, append(opts, ops.IntoEach(t, i))...)
							return err
						})
					check(fmt.Sprintf("indices, smallest %t,", smallest), swapped(indices, dim).v, i,
						func(ctx context.Context, t *ops.Tensor) error {
							_, _, err := b.TopK(ctx, tx, 2, append(opts, ops.IntoEach(v, t))...)
							return err
						})
				}
			}
		}
	})
}

func TestMemoryAlongOtherDimensions(t *testing.T) {
	b := open(t, sim.Blackhole())
	x := b.tensor(dram, ops.Int32, 3, 4)
	out := b.tensor(dram, ops.UInt32, 1, 4)
	_, err := b.Capture(b.ctx, "cold", func(ctx context.Context) error {
		return failure(b.ArgMax(ctx, x, true, ops.WithDim(0), ops.Into(out)))
	})
	expect.Fails(t, err, ops.ErrCacheMiss, "error")
	before := b.dev.Memory(allocator.DRAM).Allocated
	b.ok(b.ArgMax(b.ctx, x, true, ops.WithDim(0), ops.Into(out)))
	once := b.dev.Memory(allocator.DRAM).Allocated
	b.ok(b.ArgMax(b.ctx, x, true, ops.WithDim(0), ops.Into(out)))
	if again := b.dev.Memory(allocator.DRAM).Allocated; once <= before || again != once {
		t.Errorf("%d B before, %d B after one call, %d B after two", before, once, again)
	}
	b.holds(out, 2, 2, 2, 2)
	b.must(b.ClearProgramCache(b.ctx))
	if now := b.dev.Memory(allocator.DRAM).Allocated; now > before {
		t.Errorf("%d B are allocated, %d B before", now, before)
	}
	for _, dim := range []int{2, -3} {
		fails(t, failure(b.ArgMax(b.ctx, x, false, ops.WithDim(dim))), ops.ErrShape, "argmax along %d", dim)
		if _, _, err := b.TopK(b.ctx, x, 1, ops.WithDim(dim)); !errors.Is(err, ops.ErrShape) {
			t.Errorf("top k along %d: %v", dim, err)
		}
	}
	if _, _, err := b.TopK(b.ctx, x, 4, ops.WithDim(0)); !errors.Is(err, ops.ErrShape) {
		t.Error(err)
	}
}

func TestAlongOtherDimensionsWithoutDispatch(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.put(normal([4]int{1, 1, 40, 33}, ops.BFloat16, 1), ops.Tile, dram)
	before := b.dev.Memory(allocator.DRAM).Allocated
	c := b.BeginCapture(graph.Config{Mode: graph.NoDispatch})
	b.ok(b.Softmax(b.ctx, x, -2))
	values, indices, err := b.TopK(b.ctx, x, 2, ops.WithDim(-2))
	b.must(err)
	b.must(b.Deallocate(values))
	b.must(b.Deallocate(indices))
	r := b.report(c)
	allocated, freed := 0, 0
	for _, n := range r.Graph.Nodes {
		switch n.Type {
		case graph.BufferAllocate:
			allocated++
		case graph.BufferDeallocate:
			freed++
		}
	}
	expect.Equal(t, allocated, 8, "allocated")
	expect.Equal(t, freed, 7, "freed")
	expect.Equal(t, b.dev.Memory(allocator.DRAM).Allocated, before, "B that are allocated")
}

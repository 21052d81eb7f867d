package ops_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

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
					tr, err := b.Capture(b.ctx, what, func(ctx context.Context) error { return into(ctx, again) })
					b.must(err)
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
					if s := got.Shape(); !slices.Equal(s, shape) {
						b.Errorf("argmax along %d: %v, want %v", dim, s, shape)
					}
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
	if !errors.Is(err, ops.ErrCacheMiss) {
		t.Error(err)
	}
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
		if _, err := b.ArgMax(b.ctx, x, false, ops.WithDim(dim)); !errors.Is(err, ops.ErrShape) {
			t.Errorf("argmax along %d: %v", dim, err)
		}
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
	if allocated != 8 || freed != 7 {
		t.Errorf("%d allocations and %d deallocations, want 8, of which the result of softmax stays", allocated, freed)
	}
	if now := b.dev.Memory(allocator.DRAM).Allocated; now != before {
		t.Errorf("%d B are allocated, %d B before", now, before)
	}
}

package ops_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

func TestMovesInTracesAndGraphs(t *testing.T) {
	b := open(t, sim.Blackhole())
	x := normal([4]int{1, 2, 40, 33}, ops.BFloat16, 1)
	a, rows := b.put(x, ops.Tile, dram), b.put(x, ops.RowMajor, dram)
	indices := b.tensor(dram, ops.UInt32, 1, 2)
	table := b.ok(b.Reshape(b.ctx, rows, []int{80, 33}))
	for _, c := range []struct {
		f     func(ctx context.Context, opts ...ops.OpOption) (*ops.Tensor, error)
		names []string
	}{
		{func(ctx context.Context, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Transpose(ctx, a, 2, 3, opts...)
		},
			[]string{"ttnn::transpose", "ttnn::prim::transpose", "TransposeDeviceOperation"}},
		{func(ctx context.Context, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Permute(ctx, a, []int{0, 2, 1, 3}, opts...)
		},
			[]string{"ttnn::permute", "ttnn::prim::permute", "PermuteDeviceOperation"}},
		{func(ctx context.Context, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Reshape(ctx, a, []int{-1, 66}, opts...)
		},
			[]string{"ttnn::reshape", "ttnn::prim::reshape_view", "ReshapeViewDeviceOperation"}},
		{func(ctx context.Context, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Pad(ctx, a, [][2]int{{0, 0}, {0, 1}, {0, 0}, {0, 0}}, 2, opts...)
		}, []string{"ttnn::pad", "ttnn::prim::pad", "PadDeviceOperation"}},
		{func(ctx context.Context, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Slice(ctx, a, []int{0, 0, 0, 0}, []int{1, 2, 40, 30}, append(opts, ops.WithSteps(1, 1, 2, 3))...)
		}, []string{"ttnn::slice", "ttnn::prim::slice", "SliceDeviceOperation"}},
		{func(ctx context.Context, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Tilize(ctx, rows, opts...)
		},
			[]string{"ttnn::tilize", "ttnn::prim::tilize_with_val_padding", "TilizeWithValPaddingDeviceOperation"}},
		{func(ctx context.Context, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Untilize(ctx, a, opts...)
		},
			[]string{"ttnn::untilize", "ttnn::prim::untilize_with_unpadding", "UntilizeWithUnpaddingDeviceOperation"}},
		{func(ctx context.Context, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Embedding(ctx, indices, table, opts...)
		},
			[]string{"ttnn::embedding", "ttnn::prim::embedding", "EmbeddingsDeviceOperation"}},
		{func(ctx context.Context, _ ...ops.OpOption) (*ops.Tensor, error) {
			v, _, err := b.TopK(ctx, a, 3)
			return v, err
		}, []string{"ttnn::topk", "ttnn::prim::topk", "TopKDeviceOperation"}},
	} {
		t.Run(c.names[0], func(t *testing.T) {
			for _, mode := range []graph.Mode{graph.Normal, graph.NoDispatch} {
				capture := b.BeginCapture(graph.Config{Mode: mode})
				b.ok(c.f(b.ctx))
				names := graph.CallTrace(b.report(capture).Graph)
				for _, want := range c.names {
					if !slices.Contains(names, want) {
						t.Errorf("no %s among %v", want, names)
					}
				}
			}
			if c.names[0] == "ttnn::topk" {
				return // see TestTopKInTrace
			}
			out := b.ok(c.f(b.ctx))
			want := b.get(out)
			into := b.ok(b.Empty(b.ctx, out.Spec()))
			b.ok(c.f(b.ctx, ops.Into(into)))
			tr := b.capture("move", func(ctx context.Context) error {
				return failure(c.f(ctx, ops.Into(into)))
			})
			b.must(b.CopyHostToDevice(b.ctx, &ops.Host{Shape: out.Shape(), DType: out.Spec().DType, Data: make([]byte, 2*len(want))}, into))
			b.must(tr.Replay(b.ctx))
			equal(t, want, b.get(into))
			b.must(tr.Release(b.ctx))
		})
	}
}

func TestSpecsAreNotShared(t *testing.T) {
	b := open(t, sim.Wormhole())
	m := ops.Sharded(allocator.HeightSharded, 32, 32, chip.Grid(1, 2))
	spec := ops.Spec{Shape: []int{64, 32}, DType: ops.BFloat16, Layout: ops.Tile, Memory: m}
	want := spec.String()
	a := b.ok(b.Empty(b.ctx, spec))
	made := []*ops.Tensor{a, b.ok(b.ToMemoryConfig(b.ctx, a, m)), b.ok(b.Relu(b.ctx, a)), b.ok(b.Relu(b.ctx, a, ops.WithMemoryConfig(m))),
		b.ok(b.ToLayout(b.ctx, a, ops.Tile)), b.ok(b.Slice(b.ctx, a, []int{0, 0}, []int{64, 32})), b.zeros(m, spec.Shape...)}
	change := func(s ops.Spec) { s.Shape[0], s.Memory.Shard.Shape[0], s.Memory.Shard.Cores[0].End.Y = 1, 64, 7 }
	change(spec)
	for _, x := range made {
		change(x.Spec())
		x.Shape()[0] = 2
	}
	for i, x := range made {
		expect.Equal(t, x.Spec().String(), want, "tensor %d", i)
	}
}

func permute(a *plain, order [4]int) *plain {
	d := [4]int{a.dims[order[0]], a.dims[order[1]], a.dims[order[2]], a.dims[order[3]]}
	return make4(d, a.dtype, func(n, c, h, w int) float64 {
		var at [4]int
		for i, x := range [4]int{n, c, h, w} {
			at[order[i]] = x
		}
		return a.at(at[0], at[1], at[2], at[3])
	})
}

func TestPermute(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			dims   [4]int
			dt     ops.DataType
			layout ops.Layout
			memory ops.MemoryConfig
			order  []int
		}{
			{[4]int{1, 1, 64, 96}, ops.BFloat16, ops.Tile, dram, []int{0, 1, 3, 2}},
			{[4]int{1, 2, 40, 33}, ops.Float32, ops.Tile, l1, []int{0, 1, 3, 2}},
			{[4]int{1, 33, 2, 40}, ops.BFloat16, ops.Tile, dram, []int{0, 2, 1, 3}},
			{[4]int{2, 3, 32, 32}, ops.UInt16, ops.Tile, dram, []int{1, 0, 2, 3}},
			{[4]int{1, 1, 40, 70}, ops.BFloat16, ops.RowMajor, dram, []int{0, 1, 3, 2}},
			{[4]int{2, 3, 5, 7}, ops.UInt8, ops.RowMajor, l1, []int{2, 0, 1, 3}},
			{[4]int{2, 3, 5, 7}, ops.Int32, ops.RowMajor, dram, []int{3, 1, 0, 2}},
			{[4]int{3, 5, 4, 6}, ops.BFloat16, ops.Tile, dram, []int{2, 3, 0, 1}},
		} {
			x := normal(c.dims, c.dt, uint64(i))
			got := b.get(b.ok(b.Permute(b.ctx, b.put(x, c.layout, c.memory), c.order)))
			equal(b, permute(x, [4]int(c.order)).v, got, "%v by %v", c.dims, c.order)
		}
	})
}

func TestPermuteErrors(t *testing.T) {
	b := open(t, sim.Wormhole())
	a := b.tensor(dram, ops.UInt32, 3, 4)
	for _, dims := range [][]int{{0}, {0, 0}, {0, 2}, {-3, 0}, {0, 1, 2}} {
		fails(t, failure(b.Permute(b.ctx, a, dims)), ops.ErrShape, "%v", dims)
	}
	fails(t, failure(b.Transpose(b.ctx, a, 0, 2)), ops.ErrShape)
	b.holds(b.ok(b.Transpose(b.ctx, a, 0, -1)), 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11)
}

func (r room) rearrange(op string, b *bench, t *rapid.T, ta *ops.Tensor, a *plain) (*ops.Tensor, *plain) {
	ok := func(x *ops.Tensor, err error) *ops.Tensor {
		t.Helper()
		expect.Must(t, err)
		return x
	}
	l := ta.Spec().Layout
	to := func(dims [4]int) ops.OpOption {
		high, wide := (dims[2]+31)/32*32, (dims[3]+31)/32*32
		if dims[0]*dims[1]*high*wide*4 > 256<<10 { // as one shard it may not fit beside others
			return ops.WithMemoryConfig(dram)
		}
		return ops.WithMemoryConfig(r.memory(t, "to", dims, l))
	}
	switch op {
	case "permute":
		order := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "order")
		if x := slices.IndexFunc(order, func(k int) bool { return order[k] != k }); x >= 0 && order[order[x]] == x {
			exchange := [4]int{0, 1, 2, 3}
			exchange[x], exchange[order[x]] = order[x], x
			return ok(b.Transpose(b.ctx, ta, x-4, order[x])), permute(a, exchange)
		}
		want := permute(a, [4]int(order))
		return ok(b.Permute(b.ctx, ta, order, to(want.dims))), want
	case "pad":
		var padding [4][2]int
		for i := range padding {
			padding[i] = [2]int{rapid.SampledFrom([]int{0, 0, 1, 32}).Draw(t, "before"),
				rapid.SampledFrom([]int{0, 0, 3, 32}).Draw(t, "after")}
			if i < 2 {
				padding[i][0] %= 31
				padding[i][1] %= 30
			}
		}
		want := pad(a, padding, rapid.SampledFrom([]float64{0, 7}).Draw(t, "value"))
		return ok(b.Pad(b.ctx, ta, padding[:], want.value, to(want.dims))), want.plain
	case "steps":
		var begin, end, steps [4]int
		for i, n := range a.dims {
			begin[i] = rapid.IntRange(0, n-1).Draw(t, "begin")
			end[i] = rapid.IntRange(begin[i]+1, n).Draw(t, "end")
			steps[i] = rapid.IntRange(1, 4).Draw(t, "step")
		}
		want := take(a, begin, end, steps)
		return ok(b.Slice(b.ctx, ta, begin[:], end[:], ops.WithSteps(steps[:]...), to(want.dims))), want
	case "reshape":
		n, shape := len(a.v), [4]int{1, 1, 1, 1}
		for i := 3; i > 0; i-- {
			var by []int
			for k := 1; k <= min(n, 300); k++ {
				if n%k == 0 {
					by = append(by, k)
				}
			}
			shape[i] = rapid.SampledFrom(by).Draw(t, "dimension")
			n /= shape[i]
		}
		shape[0] = n
		want := &plain{shape, a.dtype, a.v}
		if rapid.Bool().Draw(t, "view") {
			return ok(b.Reshape(b.ctx, ta, []int{-1, shape[1], shape[2], shape[3]})), want
		}
		return ok(b.Reshape(b.ctx, ta, shape[:], to(shape))), want
	}
	if l == ops.Tile {
		return ok(b.Untilize(b.ctx, ta)), a
	}
	return ok(b.Tilize(b.ctx, ta)), a
}

type padded struct {
	*plain
	value float64
}

func pad(a *plain, padding [4][2]int, value float64) padded {
	d := a.dims
	for i := range d {
		d[i] += padding[i][0] + padding[i][1]
	}
	return padded{make4(d, a.dtype, func(n, c, h, w int) float64 {
		at := [4]int{n, c, h, w}
		for i := range at {
			if at[i] -= padding[i][0]; at[i] < 0 || at[i] >= a.dims[i] {
				return value
			}
		}
		return a.at(at[0], at[1], at[2], at[3])
	}), value}
}

func take(a *plain, begin, end, steps [4]int) *plain {
	var d [4]int
	for i := range d {
		d[i] = (end[i] - begin[i] + steps[i] - 1) / steps[i]
	}
	return make4(d, a.dtype, func(n, c, h, w int) float64 {
		return a.at(begin[0]+n*steps[0], begin[1]+c*steps[1], begin[2]+h*steps[2], begin[3]+w*steps[3])
	})
}

func TestRearrange(t *testing.T) {
	open2 := []*bench{open(t, sim.Wormhole()), open(t, sim.Blackhole())}
	names := []string{"permute", "pad", "steps", "slice", "repeat", "reshape", "tilize", "move", "embedding", "top k"}
	rapid.Check(t, func(t *rapid.T) {
		large.check(open2[rapid.IntRange(0, 1).Draw(t, "card")], t, names...)
	})
}

func TestRearrangeOnEveryBackend(t *testing.T) {
	onBackends(t, func(b *bench) {
		is := func(what string, got *ops.Tensor, err error) func(want []float64) {
			b.Helper()
			values := b.get(b.ok(got, err))
			return func(want []float64) {
				b.Helper()
				expect.NoDiff(b, values, want, "%v", what)
			}
		}
		for i, l := range []ops.Layout{ops.RowMajor, ops.Tile} {
			x := normal([4]int{2, 3, 64, 40}, ops.BFloat16, uint64(i))
			a := b.put(x, l, dram)
			got, err := b.Slice(b.ctx, a, []int{0, 1, 32, 0}, []int{2, 3, 64, 40})
			is("slice of pages", got, err)(slice(x, [4]int{0, 1, 32, 0}, [4]int{2, 3, 64, 40}).v)
			got, err = b.Slice(b.ctx, a, []int{0, 0, 3, 5}, []int{1, 1, 33, 38}, ops.WithSteps(1, 1, 2, 3))
			is("steps", got, err)(take(x, [4]int{0, 0, 3, 5}, [4]int{1, 1, 33, 38}, [4]int{1, 1, 2, 3}).v)
			got, err = b.Pad(b.ctx, a, [][2]int{{0, 1}, {1, 0}, {32, 0}, {0, 0}}, -1.5)
			is("pad with pages", got, err)(pad(x, [4][2]int{{0, 1}, {1, 0}, {32, 0}, {0, 0}}, -1.5).v)
			got, err = b.Pad(b.ctx, a, [][2]int{{0, 0}, {0, 0}, {0, 3}, {2, 30}}, 4)
			is("pad", got, err)(pad(x, [4][2]int{{0, 0}, {0, 0}, {0, 3}, {2, 30}}, 4).v)
			got, err = b.Repeat(b.ctx, a, []int{2, 1, 2, 1})
			is("repeat", got, err)(repeat(x, [4]int{2, 1, 2, 1}).v)
			got, err = b.Reshape(b.ctx, a, []int{6, -1, 40})
			is("view", got, err)(x.v)
			got, err = b.Reshape(b.ctx, a, []int{-1, 64, 20}, ops.WithMemoryConfig(l1))
			is("reshape", got, err)(x.v)
			got, err = b.ToLayout(b.ctx, a, 1-l)
			is("other layout", got, err)(x.v)
		}
	})
}

func TestViews(t *testing.T) {
	b := open(t, sim.Wormhole())
	a := b.tensor(dram, ops.UInt32, 2, 3, 4)
	v := b.ok(b.Reshape(b.ctx, a, []int{6, -1}))
	if v.Address() != a.Address() || !slices.Equal(v.Shape(), []int{6, 4}) || v.ID() == a.ID() {
		t.Errorf("%v at %#x", v.Shape(), v.Address())
	}
	into := b.ok(b.Empty(b.ctx, v.Spec()))
	b.ok(b.Add(b.ctx, v, v, ops.Into(into)))
	tr := b.capture("view", func(ctx context.Context) error {
		w, err := b.Reshape(ctx, a, []int{6, 4})
		if err != nil {
			return err
		}
		_, err = b.Add(ctx, w, w, ops.Into(into))
		return errors.Join(err, b.Deallocate(w))
	})
	b.must(tr.Replay(b.ctx))
	b.holds(into, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46)
	b.must(tr.Release(b.ctx))
	b.must(b.Deallocate(into))
	before := b.dev.Memory(allocator.DRAM).Allocated
	b.must(b.Deallocate(a))
	fails(t, failure(b.Reshape(b.ctx, a, []int{24})), ops.ErrReleased)
	expect.Equal(t, b.dev.Memory(allocator.DRAM).Allocated, before, "B that are allocated")
	b.holds(v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
	b.must(b.Deallocate(v))
	if now := b.dev.Memory(allocator.DRAM).Allocated; now >= before {
		t.Errorf("%d B are allocated", now)
	}
	// The shards are the same ones.
	s := b.tensor(ops.Sharded(allocator.HeightSharded, 2, 8, chip.Grid(3, 1)), ops.UInt32, 1, 6, 8)
	if w := b.ok(b.Reshape(b.ctx, s, []int{3, 2, 8})); w.Address() != s.Address() || !w.Spec().Memory.Equal(s.Spec().Memory) {
		t.Errorf("%v", w.Spec())
	}
}

func TestRearrangeErrors(t *testing.T) {
	b := open(t, sim.Wormhole())
	a := b.tensor(dram, ops.UInt32, 3, 4)
	b.refused(b.dev.MemoryFingerprint(allocator.DRAM), map[string]refusal{
		"reshape":       {failure(b.Reshape(b.ctx, a, []int{5, 2})), ops.ErrShape},
		"reshape small": {failure(b.Reshape(b.ctx, a, []int{6})), ops.ErrShape},
		"reshape open":  {failure(b.Reshape(b.ctx, a, []int{-1, -1})), ops.ErrShape},
		"reshape empty": {failure(b.Reshape(b.ctx, a, nil)), ops.ErrShape},
		"reshape zero":  {failure(b.Reshape(b.ctx, a, []int{0, -1})), ops.ErrShape},
		"pad one":       {failure(b.Pad(b.ctx, a, [][2]int{{1, 1}}, 0)), ops.ErrShape},
		"pad negative":  {failure(b.Pad(b.ctx, a, [][2]int{{1, 1}, {-1, 0}}, 0)), ops.ErrShape},
		"steps":         {failure(b.Slice(b.ctx, a, []int{0, 0}, []int{1, 1}, ops.WithSteps(1))), ops.ErrShape},
		"step of 0":     {failure(b.Slice(b.ctx, a, []int{0, 0}, []int{1, 1}, ops.WithSteps(1, 0))), ops.ErrShape},
		"rows":          {failure(b.Untilize(b.ctx, a)), ops.ErrMemory},
	})
}

// The limits are 1.4 times what was measured, instructions of waiting, of the firmware and of other
// cores included.
func TestInstructionsOfMoves(t *testing.T) {
	card := sim.Blackhole(sim.Synchronous(), sim.Harvesting(chip.Harvesting{Tensix: 0x3FF8}))
	b := open(t, card)
	of := func(l ops.Layout, dims [4]int) *ops.Tensor { return b.put(normal(dims, ops.BFloat16, 1), l, dram) }
	heads, table := [4]int{1, 64, 16, 64}, of(ops.RowMajor, [4]int{1, 1, 100, 256})
	indices := b.tensor(dram, ops.UInt32, 1, 64)
	for _, l := range []ops.Layout{ops.RowMajor, ops.Tile} {
		a, h := of(l, [4]int{1, 1, 256, 256}), of(l, heads)
		for _, c := range []struct {
			name string
			most [2]float64 // of each layout
			f    func() (*ops.Tensor, error)
		}{
			{"transpose of the last two dimensions", [2]float64{13, 4.5}, func() (*ops.Tensor, error) { return b.Transpose(b.ctx, a, 2, 3) }},
			{"permute 0 2 1 3", [2]float64{7, 18}, func() (*ops.Tensor, error) { return b.Permute(b.ctx, h, []int{0, 2, 1, 3}) }},
			{"permute 0 2 3 1", [2]float64{17, 21.5}, func() (*ops.Tensor, error) { return b.Permute(b.ctx, h, []int{0, 2, 3, 1}) }},
			{"permute 1 0 2 3", [2]float64{7, 2}, func() (*ops.Tensor, error) { return b.Permute(b.ctx, h, []int{1, 0, 2, 3}) }},
			{"to the other layout", [2]float64{14.5, 7}, func() (*ops.Tensor, error) { return b.ToLayout(b.ctx, a, 1-l) }},
			{"slice of pages", [2]float64{3.5, 2}, func() (*ops.Tensor, error) {
				return b.Slice(b.ctx, a, []int{0, 0, 128, 0}, []int{1, 1, 256,
					256})
			}},
			{"slice", [2]float64{7.5, 43}, func() (*ops.Tensor, error) { return b.Slice(b.ctx, a, []int{0, 0, 1, 6}, []int{1, 1, 256, 256}) }},
			{"pad", [2]float64{6.5, 14}, func() (*ops.Tensor, error) { return b.Pad(b.ctx, a, [][2]int{{0, 0}, {0, 0}, {3, 0}, {0, 5}}, 1) }},
			{"reshape", [2]float64{6, 15.5}, func() (*ops.Tensor, error) { return b.Reshape(b.ctx, a, []int{1, 1, 128, 512}) }},
			{"concat along rows", [2]float64{1.5, 1}, func() (*ops.Tensor, error) { return b.Concat(b.ctx, []*ops.Tensor{a, a}, 2) }},
			{"repeat", [2]float64{2.5, 1}, func() (*ops.Tensor, error) { return b.Repeat(b.ctx, a, []int{1, 1, 2, 1}) }},
			{"embedding", [2]float64{5, 20.5}, func() (*ops.Tensor, error) { return b.Embedding(b.ctx, indices, table, ops.WithLayout(l)) }},
		} {
			n := 1
			for _, d := range b.ok(c.f()).Shape() { // the first time loads the program
				n *= d
			}
			b.must(b.Wait(b.ctx))
			before := card.Chip().Work()
			b.ok(c.f())
			b.must(b.Wait(b.ctx))
			each := float64(card.Chip().Work().Instructions-before.Instructions) / float64(n)
			b.Logf("%v, %s: %.2f instructions for an element", l, c.name, each)
			if most := c.most[l]; each > most {
				b.Errorf("%v, %s: %.2f instructions for an element, want at most %.2f", l, c.name, each, most)
			}
		}
	}
}

package ops_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

// array is a tensor of any number of dimensions in plain Go.
type array struct {
	shape []int
	v     []float64
}

func makeArray(shape []int, f func(at []int) float64) array {
	a, at := array{slices.Clone(shape), []float64{}}, make([]int, len(shape))
	for !slices.Contains(shape, 0) {
		a.v = append(a.v, f(at))
		k := len(shape) - 1
		for ; k >= 0 && at[k]+1 == shape[k]; k-- {
			at[k] = 0
		}
		if k < 0 {
			break
		}
		at[k]++
	}
	return a
}

// someArray has small integers, so that the engines' sums and products of bfloat16 are exact.
func someArray(shape []int) array {
	i := 0
	return makeArray(shape, func([]int) float64 { i++; return float64(i*5%13 - 6) })
}

// at returns an element; indices wrap at the end of a dimension, and there may be more of them.
func (a array) at(index []int) float64 {
	i := 0
	for k, d := range a.shape {
		i = i*d + index[len(index)-len(a.shape)+k]%d
	}
	return a.v[i]
}

func with(at []int, k, v int) []int { return slices.Concat(at[:k], []int{v}, at[k+1:]) }

func sized(shape []int, f func(k, n int) int) []int {
	out := make([]int, len(shape))
	for k, n := range shape {
		out[k] = f(k, n)
	}
	return out
}

func TestShapes(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, shape := range [][]int{
			{}, {0, 3, 2}, {2, 0}, {2, 2, 2, 0, 3}, {2, 3, 2, 2, 5}, {2, 1, 2, 4, 34, 3}, {2, 2, 1, 2, 1, 2, 2, 3}, {1, 2, 2, 2, 2, 33, 1}, {0}, {},
		} {
			for _, l := range []ops.Layout{ops.RowMajor, ops.Tile} {
				few := strings.Contains(b.Name(), "strict") && i%4 != 1 && i != 6 // checks are slow
				if effort.Hours || int(l) == i%2 && !few {
					checkShape(b, shape, l, [][]ops.DataType{{ops.Int32, ops.BFloat16}, {ops.BFloat16, ops.Float32}}[l][i/2%2])
				}
			}
		}
	})
}

func checkShape(b *bench, shape []int, l ops.Layout, dt ops.DataType) {
	rank := len(shape)
	put := func(a array) *ops.Tensor {
		b.Helper()
		return b.ok(b.ToDevice(b.ctx, value(ops.NewHost(a.shape, dt, a.v))(b), l, dram))
	}
	is := func(what string, shape []int, f func(at []int) float64) func(*ops.Tensor, error) {
		want := makeArray(shape, f)
		return func(t *ops.Tensor, err error) {
			b.Helper()
			h := value(b.ToHost(b.ctx, value(t, err)(b)))(b)
			if d := cmp.Diff(want, array{h.Shape, ops.Values[float64](h)}, cmp.AllowUnexported(array{}), cmpopts.EquateNaNs()); d != "" {
				b.Errorf("%s of %v %v in %v: %s", what, dt, shape, l, d)
			}
			b.must(b.Deallocate(t))
		}
	}
	odd := sized(shape, func(k, n int) int { return []int{n, 1}[k%2] })
	x, y := someArray(shape), someArray(odd)
	tx, ty := put(x), put(y)
	is("copy", shape, x.at)(b.ToMemoryConfig(b.ctx, tx, l1))
	is("other layout", shape, x.at)(b.ToLayout(b.ctx, tx, 1-l))
	is("sum with a broadcast", shape, func(at []int) float64 { return x.at(at) + y.at(at) })(b.Add(b.ctx, tx, ty))
	is("product with a broadcast", shape, func(at []int) float64 { return y.at(at) * x.at(at) })(b.Multiply(b.ctx, ty, tx))

	// Rearrangements.
	padding := make([][2]int, rank)
	for k := range shape {
		padding[k] = [2]int{k % 2, k % 3}
	}
	begin := sized(shape, func(_, n int) int { return min(1, max(n-1, 0)) })
	times, steps := sized(shape, func(k, _ int) int { return 1 + k%2 }), sized(shape, func(k, _ int) int { return 1 + k%3 })
	for name, next := range map[string]func(k, n int) int{
		"reversed dimensions": func(k, _ int) int { return rank - 1 - k }, "rotated dimensions": func(k, _ int) int { return (k + 2) % rank },
	} {
		order := sized(shape, next)
		is(name, sized(shape, func(k, _ int) int { return shape[order[k]] }), func(at []int) float64 {
			return x.at(sized(at, func(d, _ int) int { return at[slices.Index(order, d)] }))
		})(b.Permute(b.ctx, tx, order))
	}
	is("slice", sized(shape, func(k, n int) int { return (n - begin[k] + steps[k] - 1) / steps[k] }), func(at []int) float64 {
		return x.at(sized(at, func(k, i int) int { return begin[k] + i*steps[k] }))
	})(b.Slice(b.ctx, tx, begin, shape, ops.WithSteps(steps...)))
	is("nothing", make([]int, rank), x.at)(b.Slice(b.ctx, tx, begin, begin))
	is("repetition", sized(shape, func(k, n int) int { return n * times[k] }), x.at)(b.Repeat(b.ctx, tx, times))
	is("padded", sized(shape, func(k, n int) int { return n + padding[k][0] + padding[k][1] }), func(at []int) float64 {
		for k, i := range at {
			if i < padding[k][0] || i >= padding[k][0]+shape[k] {
				return 7
			}
		}
		return x.at(sized(at, func(k, i int) int { return i - padding[k][0] }))
	})(b.Pad(b.ctx, tx, padding, 7))
	row := array{[]int{len(x.v)}, x.v}
	is("row", row.shape, row.at)(b.Reshape(b.ctx, tx, []int{-1}))
	column := array{[]int{len(x.v), 1, 1, 1, 1}, x.v}
	is("column", column.shape, column.at)(b.Reshape(b.ctx, tx, column.shape))

	for dim, n := range shape {
		is("concatenation of one", shape, x.at)(b.Concat(b.ctx, []*ops.Tensor{tx}, dim))
		none := b.ok(b.Slice(b.ctx, tx, make([]int, rank), with(shape, dim, 0)))
		is("concatenation", with(shape, dim, 2*n), x.at)(b.Concat(b.ctx, []*ops.Tensor{tx, none, tx}, dim))
		best := func(at []int) float64 {
			best := 0
			for i := range n {
				if x.at(with(at, dim, i)) > x.at(with(at, dim, best)) {
					best = i
				}
			}
			return float64(best)
		}
		one := with(shape, dim, 1)
		if n > 0 {
			is("index", one, best)(b.ArgMax(b.ctx, tx, true, ops.WithDim(dim)))
		}
		if l != ops.Tile {
			continue
		}
		sum := func(at []int) (sum float64) {
			for i := range n {
				sum += x.at(with(at, dim, i))
			}
			return sum
		}
		is("sum", one, sum)(b.Sum(b.ctx, tx, dim))
		if n&(n-1) == 0 {
			is("mean", one, func(at []int) float64 { return sum(at) / float64(n) })(b.Mean(b.ctx, tx, dim))
		}
		if n > 0 {
			is("maximum", one, func(at []int) float64 { return x.at(with(at, dim, int(best(at)))) })(b.Max(b.ctx, tx, dim))
		}
		if n < 2 {
			is("softmax", shape, func([]int) float64 { return 1 })(b.Softmax(b.ctx, tx, dim))
		}
	}
	if l == ops.Tile {
		is("negative", shape, func(at []int) float64 { return -x.at(at) })(b.Neg(b.ctx, tx))
		is("where", shape, func(at []int) float64 { return map[bool]float64{true: x.at(at), false: y.at(at)}[y.at(at) != 0] })(
			b.Where(b.ctx, ty, tx, ty))
	}
	if rank < 2 {
		return
	}
	// Products with matrices of few batches.
	wide, inner := with(shape, rank-1, 3), shape[rank-1]
	w, bias := someArray(with(with(odd, rank-2, inner), rank-1, 3)), someArray(with(with(odd, rank-2, 1), rank-1, 3))
	product := func(at []int) (sum float64) {
		for k := range inner {
			sum += x.at(with(at, rank-1, k)) * w.at(with(at, rank-2, k))
		}
		return fit(dt, int64(sum), float32(sum))
	}
	is("product", wide, product)(b.Matmul(b.ctx, tx, put(w)))
	if l == ops.Tile && inner > 0 {
		linear := func(at []int) float64 { sum := product(at) + bias.at(at); return fit(dt, 0, float32(sum)) }
		is("linear", wide, linear)(b.Linear(b.ctx, tx, put(w), put(bias)))
		if rank < 8 {
			longer := array{append([]int{1}, bias.shape...), bias.v}
			is("linear with a longer bias", wide, linear)(b.Linear(b.ctx, tx, put(w), put(longer)))
		}
	}
}

// TestShardedDimensions rearranges and repeats more than four dimensions from shards and to shards.
func TestShardedDimensions(t *testing.T) {
	b := open(t, sim.Wormhole())
	x, y := someArray([]int{2, 3, 2, 2, 8}), someArray([]int{1, 3, 2, 2, 8})
	put := func(a array, m ops.MemoryConfig) *ops.Tensor {
		return b.ok(b.ToDevice(b.ctx, value(ops.NewHost(a.shape, ops.Int32, a.v))(b), ops.RowMajor, m))
	}
	ty := put(y, ops.Sharded(allocator.WidthSharded, 12, 4, chip.Grid(2, 1)))
	for _, m := range []ops.MemoryConfig{ops.Sharded(allocator.WidthSharded, 24, 4, chip.Grid(2, 1)), dram} {
		tx, rows := put(x, m), ops.WithMemoryConfig(ops.Sharded(allocator.HeightSharded, 3, 8, chip.Grid(8, 1)))
		got := b.ok(b.Permute(b.ctx, tx, []int{3, 1, 0, 2, 4}, rows))
		want := makeArray([]int{2, 3, 2, 2, 8}, func(at []int) float64 { return x.at([]int{at[2], at[1], at[3], at[0], at[4]}) })
		equal(t, want.v, b.get(got), m)
		sum := makeArray(x.shape, func(at []int) float64 { return x.at(at) + y.at(at) })
		equal(t, sum.v, b.get(b.ok(b.Add(b.ctx, tx, ty, rows))), m)
	}
}

func TestShapesRefused(t *testing.T) {
	b := open(t, sim.Blackhole())
	scalar, row, empty := b.zeros(dram), b.zeros(dram, 4), b.zeros(dram, 2, 0)
	images, many := b.zeros(dram, 1, 1, 1, 1, 4, 4), b.zeros(dram, 1, 1, 1, 1, 1, 1, 64, 64)
	pool := ops.Pool2dConfig{Batch: 1, Height: 2, Width: 2, Channels: 4, Kernel: [2]int{2, 2}}
	both := pool
	both.Padding, both.Edges = [2]int{1, 1}, [4]int{0, 1}
	flat := b.zeros(dram, 1, 1, 4, 4)
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	b.refused(before, map[string]refusal{
		"sum of a scalar":        {failure(b.Sum(b.ctx, scalar, -1)), ops.ErrShape},
		"maximum of nothing":     {failure(b.Max(b.ctx, empty, 1)), ops.ErrShape},
		"index in nothing":       {failure(b.ArgMax(b.ctx, empty, true)), ops.ErrShape},
		"product of rows":        {failure(b.Matmul(b.ctx, row, row)), ops.ErrShape},
		"bias of nothing":        {failure(b.Linear(b.ctx, empty, b.zeros(l1, 0, 4), b.zeros(l1, 1, 4))), ops.ErrShape},
		"what is -1":             {failure(b.Reshape(b.ctx, empty, []int{0, -1})), ops.ErrShape},
		"no tensors":             {failure(b.Concat(b.ctx, nil, 0)), ops.ErrShape},
		"concatenated scalars":   {failure(b.Concat(b.ctx, []*ops.Tensor{scalar, scalar}, 0)), ops.ErrShape},
		"images":                 {failure(b.MaxPool2d(b.ctx, images, pool)), ops.ErrShape},
		"padding and edges":      {failure(b.MaxPool2d(b.ctx, flat, both)), ops.ErrShape},
		"heads":                  {failure(b.ConcatHeads(b.ctx, many)), ops.ErrShape},
		"nine dimensions":        {failure(b.Reshape(b.ctx, row, []int{1, 1, 1, 1, 1, 1, 1, 1, 4})), ops.ErrShape},
		"attention to no keys":   {failure(b.ScaledDotProductAttention(b.ctx, flat, b.zeros(l1, 1, 1, 0, 4), b.zeros(l1, 1, 1, 0, 4), ops.Attention{})), ops.ErrShape},
		"an embedding of no row": {failure(b.Embedding(b.ctx, b.tensor(l1, ops.UInt32, 2), b.tensor(l1, ops.UInt32, 0, 4))), ops.ErrShape},
	})
	var o *ops.OptionError
	_, err := b.Matmul(b.ctx, flat, flat, ops.WithMatmulProgram(ops.MatmulProgram{Form: ops.MatmulSimple, PerCoreN: 1, NarrowSums: true}))
	if !errors.As(err, &o) {
		t.Fatal(err)
	}
	equal(t, []string{"MatmulProgram.PerCoreN", "MatmulProgram.NarrowSums"}, o.Options)
}

// Integers keep their low bits, floats become the nearest integers in range.
func TestNumbers(t *testing.T) {
	for _, dt := range types[:4] {
		wide := value(ops.NewHost([]int{4}, dt, []int{-1, 1<<40 + 7, 300, 70000}))(t)
		equal(t, wide, value(ops.NewHost([]int{4}, dt, []int64{-1, 7, 300, 70000 + 1<<33}))(t))
	}
	for dt, want := range map[ops.DataType][]int{
		ops.UInt8: {0, 2, 255, 0, 255}, ops.Int32: {-2, 2, math.MaxInt32, -math.MaxInt32, math.MaxInt32},
		ops.Float32: {-2, 2, math.MaxInt, -math.MaxInt, math.MaxInt},
	} {
		equal(t, want, ops.Values[int](value(ops.NewHost([]int{5}, dt, []float64{-2.9, 2.9, 1e30, math.Inf(-1), math.NaN()}))(t)))
	}
	scalar := value(ops.NewHost(nil, ops.Float32, []float64{0.1}))(t)
	equal(t, []float64{float64(float32(0.1))}, ops.Values[float64](scalar))
}

func TestTensorFromBuffer(t *testing.T) {
	b := open(t, sim.Blackhole())
	s := ops.Spec{Shape: []int{1, 1, 40, 33}, DType: ops.BFloat16, Layout: ops.Tile, Memory: dram}
	v := make([]float32, 40*33)
	for i := range v {
		v[i] = float32(i%100) - 50
	}
	h := value(ops.NewHost(s.Shape, s.DType, v))(b)
	pages := value(s.Encode(h))(b)
	back := value(s.Decode(pages))(b)
	equal(t, h, back, "decoded")

	c := value(s.BufferConfig("input"))(b)
	buf := value(b.dev.NewBuffer(c))(b)
	b.must(b.dev.Queue(0).Write(b.ctx, buf, 0, pages))
	in := value(b.FromBuffer(buf, s))(b)
	got := b.toHost(b.ok(b.Neg(b.ctx, in)))
	for i := range v {
		v[i] = -v[i]
	}
	equal(t, v, ops.Values[float32](got), "negated")

	other := open(t, sim.Blackhole())
	rows := s
	rows.Layout = ops.RowMajor
	for name, c := range map[string]struct {
		err  func() error
		want error
	}{
		"another device": {func() error { _, err := other.FromBuffer(buf, s); return err }, ops.ErrWrongDevice},
		"other pages":    {func() error { return failure(b.FromBuffer(buf, rows)) }, ops.ErrMemory},
		"no buffer":      {func() error { return failure(b.FromBuffer(nil, s)) }, ops.ErrMemory},
		"no shape":       {func() error { return failure(b.FromBuffer(buf, ops.Spec{Shape: []int{-1}})) }, ops.ErrShape},
		"no layout":      {func() error { _, err := ops.Spec{Layout: 2}.BufferConfig(""); return err }, ops.ErrMemory},
		"pages cut":      {func() error { _, err := s.Decode(pages[1:]); return err }, ops.ErrShape},
		"another shape":  {func() error { _, err := ops.Spec{Shape: []int{2}, DType: s.DType}.Encode(h); return err }, ops.ErrShape},
	} {
		fails(t, c.err(), c.want, name)
	}

	b.must(b.Deallocate(in))
	fails(t, failure(b.Neg(b.ctx, in)), ops.ErrReleased, "after it was deallocated")
	b.must(buf.Release()) // it still was the caller's
}

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
	h := value(ops.NewHost(shape, dt, v))(b)
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
				h := b.toHost(out)
				v := make([]float32, h.Shape[0]*64)
				for i := range v {
					v[i] = want(i % 100)
				}
				w := value(ops.NewHost(h.Shape, c.dtype, v))(b)
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
			expect.Equal(t, b.ProgramCacheEntries(), entries, "programs")
			run("double", func(i int) float32 { return float32(2 * i) }, func() (*ops.Tensor, error) { return b.Add(b.ctx, x, x) }, x)
			run("relu", func(i int) float32 { return float32(i) }, func() (*ops.Tensor, error) { return b.Relu(b.ctx, x) }, x)
			// A trace keeps the addresses that it was recorded with.
			into, other := b.ok(b.Empty(b.ctx, x.Spec())), b.ok(b.Empty(b.ctx, x.Spec()))
			tr := b.capture("sum", func(ctx context.Context) error {
				return failure(b.Add(ctx, x, y, ops.Into(into)))
			})
			b.ok(b.Add(b.ctx, y, y, ops.Into(other)))
			b.must(tr.Replay(b.ctx))
			b.must(tr.Replay(b.ctx))
			h := b.toHost(into)
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
			expect.Equal(t, c[0], '0', "%s: a circular buffer in a tensor: %s", name, c)
		}
		h := b.toHost(sum)
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
			expect.Equal(t, programs, c.programs, "programs")
			is := func(x *ops.Tensor) {
				t.Helper()
				h := b.toHost(x)
				equal(t, want, ops.Values[float32](h))
			}
			is(out)
			if c.programs > 1 {
				return
			}
			into := b.ok(b.Empty(b.ctx, out.Spec()))
			tr := b.capture("concat", func(ctx context.Context) error {
				return failure(b.Concat(ctx, in, c.dim, ops.Into(into)))
			})
			b.must(tr.Replay(b.ctx))
			is(into)
			b.must(tr.Release(b.ctx))
		})
	}
}

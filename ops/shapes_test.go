package ops_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

// array is a tensor of any number of dimensions in plain Go.
type array struct {
	shape []int
	v     []float64
}

func makeArray(shape []int, f func(at []int) float64) array {
	n := 1
	for _, d := range shape {
		n *= d
	}
	a := array{slices.Clone(shape), make([]float64, n)}
	at := make([]int, len(shape))
	for i := range a.v {
		for k, rest := len(shape)-1, i; k >= 0; k-- {
			at[k], rest = rest%shape[k], rest/shape[k]
		}
		a.v[i] = f(at)
	}
	return a
}

// at returns an element; indices wrap at the end of a dimension, and there may be more of them.
func (a array) at(index ...int) float64 {
	i := 0
	for k, d := range a.shape {
		i = i*d + index[len(index)-len(a.shape)+k]%d
	}
	return a.v[i]
}

func with(at []int, k, v int) []int {
	at = slices.Clone(at)
	at[k] = v
	return at
}

// someArray has small integers, so that the engines' sums and products of bfloat16 are exact.
func someArray(shape []int) array {
	i := 0
	return makeArray(shape, func([]int) float64 { i++; return float64(i*5%13 - 6) })
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
		h, err := ops.NewHost(a.shape, dt, a.v)
		b.must(err)
		return b.ok(b.ToDevice(b.ctx, h, l, dram))
	}
	is := func(what string, want array) func(*ops.Tensor, error) {
		return func(t *ops.Tensor, err error) {
			b.Helper()
			what := fmt.Sprintf("%s of %v %v in %v", what, dt, shape, l)
			if err != nil {
				b.Fatal(what, err)
			}
			h, err := b.ToHost(b.ctx, t)
			b.must(err)
			if !slices.Equal(h.Shape, want.shape) {
				b.Fatalf("%s is %v, want %v", what, h.Shape, want.shape)
			}
			same := func(x, y float64) bool { return x == y || x != x && y != y }
			if got := ops.Values[float64](h); got == nil || !slices.EqualFunc(got, want.v, same) {
				b.Errorf("%s: %v, want %v", what, got, want.v)
			}
			b.must(b.Deallocate(t))
		}
	}
	x := someArray(shape)
	tx := put(x)
	is("copy", x)(b.ToMemoryConfig(b.ctx, tx, l1))
	is("other layout", x)(b.ToLayout(b.ctx, tx, 1-l))
	odd := slices.Clone(shape)
	for k := range odd {
		if k%2 != 0 {
			odd[k] = 1
		}
	}
	y := someArray(odd)
	is("sum with a broadcast", makeArray(shape, func(at []int) float64 { return x.at(at...) + y.at(at...) }))(b.Add(b.ctx, tx, put(y)))
	outer := makeArray(shape, func(at []int) float64 { return y.at(at...) * x.at(at...) })
	is("product with a broadcast", outer)(b.Multiply(b.ctx, put(y), tx))

	// Rearrangements.
	reversed, rotated := make([]int, rank), make([]int, rank)
	padding, end := make([][2]int, rank), slices.Clone(shape)
	begin, times, steps := make([]int, rank), make([]int, rank), make([]int, rank)
	for k, n := range shape {
		reversed[k], rotated[k] = rank-1-k, (k+2)%rank
		times[k], steps[k] = 1+k%2, 1+k%3
		begin[k], padding[k] = min(1, max(n-1, 0)), [2]int{k % 2, k % 3}
	}
	permuted := func(order []int) array {
		return makeArray(moved(shape, order), func(at []int) float64 {
			from := make([]int, rank)
			for k, d := range order {
				from[d] = at[k]
			}
			return x.at(from...)
		})
	}
	is("reversed dimensions", permuted(reversed))(b.Permute(b.ctx, tx, reversed))
	is("rotated dimensions", permuted(rotated))(b.Permute(b.ctx, tx, rotated))
	is("slice", makeArray(sized(shape, func(k, n int) int { return (n - begin[k] + steps[k] - 1) / steps[k] }), func(at []int) float64 {
		at = slices.Clone(at)
		for k := range at {
			at[k] = begin[k] + at[k]*steps[k]
		}
		return x.at(at...)
	}))(b.Slice(b.ctx, tx, begin, end, ops.WithSteps(steps...)))
	is("nothing", array{make([]int, rank), x.v[:len(x.v)*(1-min(rank, 1))]})(b.Slice(b.ctx, tx, begin, begin))
	is("repetition", makeArray(sized(shape, func(k, n int) int { return n * times[k] }), func(at []int) float64 { return x.at(at...) }))(
		b.Repeat(b.ctx, tx, times))
	is("padded", makeArray(sized(shape, func(k, n int) int { return n + padding[k][0] + padding[k][1] }), func(at []int) float64 {
		at = slices.Clone(at)
		for k := range at {
			if at[k] -= padding[k][0]; at[k] < 0 || at[k] >= shape[k] {
				return 7
			}
		}
		return x.at(at...)
	}))(b.Pad(b.ctx, tx, padding, 7))
	is("row", array{[]int{len(x.v)}, x.v})(b.Reshape(b.ctx, tx, []int{-1}))
	is("column", array{[]int{len(x.v), 1, 1, 1, 1}, x.v})(b.Reshape(b.ctx, tx, []int{len(x.v), 1, 1, 1, 1}))

	for dim, n := range shape {
		is("concatenation of one", x)(b.Concat(b.ctx, []*ops.Tensor{tx}, dim))
		is("concatenation", makeArray(with(shape, dim, 2*n), func(at []int) float64 { return x.at(at...) }))(
			b.Concat(b.ctx, []*ops.Tensor{tx, b.ok(b.Slice(b.ctx, tx, make([]int, rank), with(shape, dim, 0))), tx}, dim))
		best := makeArray(with(shape, dim, min(n, 1)), func(at []int) float64 {
			best := 0
			for i := range n {
				if x.at(with(at, dim, i)...) > x.at(with(at, dim, best)...) {
					best = i
				}
			}
			return float64(best)
		})
		if n > 0 {
			is("index", best)(b.ArgMax(b.ctx, tx, true, ops.WithDim(dim)))
		}
		if l != ops.Tile {
			continue
		}
		sum := makeArray(with(shape, dim, 1), func(at []int) (sum float64) {
			for i := range n {
				sum += x.at(with(at, dim, i)...)
			}
			return sum
		})
		is("sum", sum)(b.Sum(b.ctx, tx, dim))
		if n&(n-1) == 0 {
			is("mean", makeArray(sum.shape, func(at []int) float64 { return sum.at(at...) / float64(n) }))(b.Mean(b.ctx, tx, dim))
		}
		if n > 0 {
			is("maximum", makeArray(sum.shape, func(at []int) float64 { return x.at(with(at, dim, int(best.at(at...)))...) }))(
				b.Max(b.ctx, tx, dim))
		}
		if n < 2 {
			is("softmax", makeArray(shape, func([]int) float64 { return 1 }))(b.Softmax(b.ctx, tx, dim))
		}
	}
	if l == ops.Tile {
		is("negative", makeArray(shape, func(at []int) float64 { return -x.at(at...) }))(b.Neg(b.ctx, tx))
		is("where", makeArray(shape, func(at []int) float64 {
			return map[bool]float64{true: x.at(at...), false: y.at(at...)}[y.at(at...) != 0]
		}))(
			b.Where(b.ctx, put(y), tx, put(y)))
	}
	if rank < 2 {
		return
	}
	// Products with matrices of few batches.
	odd[rank-2], odd[rank-1] = shape[rank-1], 3
	w := someArray(odd)
	bias := someArray([]int{1, 3})
	product := func(bias array) array {
		return makeArray(with(shape, rank-1, 3), func(at []int) float64 {
			sum := bias.at(at...)
			for k := range shape[rank-1] {
				sum += x.at(with(at, rank-1, k)...) * w.at(append(slices.Clone(at[:rank-2]), k, at[rank-1])...)
			}
			return fit(dt, int64(sum), float32(sum))
		})
	}
	is("product", product(array{[]int{1}, []float64{0}}))(b.Matmul(b.ctx, tx, put(w)))
	if l == ops.Tile && shape[rank-1] > 0 {
		is("linear", product(bias))(b.Linear(b.ctx, tx, put(w), put(bias)))
	}
}

func moved(shape, order []int) []int {
	return sized(shape, func(k, _ int) int { return shape[order[k]] })
}

func sized(shape []int, f func(k, n int) int) []int {
	out := make([]int, len(shape))
	for k, n := range shape {
		out[k] = f(k, n)
	}
	return out
}

// TestShardedDimensions rearranges more than four dimensions from shards and to shards.
func TestShardedDimensions(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := someArray([]int{2, 3, 2, 2, 8})
	for _, m := range []ops.MemoryConfig{ops.Sharded(allocator.WidthSharded, 24, 4, chip.Grid(2, 1)), dram} {
		h, err := ops.NewHost(x.shape, ops.Int32, x.v)
		b.must(err)
		a := b.ok(b.ToDevice(b.ctx, h, ops.RowMajor, m))
		order := []int{3, 1, 0, 2, 4}
		got := b.ok(b.Permute(b.ctx, a, order, ops.WithMemoryConfig(ops.Sharded(allocator.HeightSharded, 3, 8, chip.Grid(8, 1)))))
		want := makeArray(moved(x.shape, order), func(at []int) float64 { return x.at(at[2], at[1], at[3], at[0], at[4]) })
		equal(t, want.v, b.get(got), m)
	}
}

func TestShapesRefused(t *testing.T) {
	b := open(t, sim.Blackhole())
	scalar, row, empty := b.zeros(dram), b.zeros(dram, 4), b.zeros(dram, 2, 0)
	images, many := b.zeros(dram, 1, 1, 1, 1, 4, 4), b.zeros(dram, 1, 1, 1, 1, 1, 1, 64, 64)
	pool := ops.Pool2dConfig{Batch: 1, Height: 2, Width: 2, Channels: 4, Kernel: [2]int{2, 2}}
	both := ops.Pool2dConfig{Batch: 1, Height: 2, Width: 2, Channels: 4, Kernel: [2]int{2, 2}, Padding: [2]int{1, 1}, Edges: [4]int{0, 1}}
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
		wide, err := ops.NewHost([]int{4}, dt, []int{-1, 1<<40 + 7, 300, 70000})
		devtest.Must(t, err)
		low, err := ops.NewHost([]int{4}, dt, []int64{-1, 7, 300, 70000 + 1<<33})
		devtest.Must(t, err)
		equal(t, wide, low)
	}
	near := func(dt ops.DataType) []int {
		h, err := ops.NewHost([]int{5}, dt, []float64{-2.9, 2.9, 1e30, math.Inf(-1), math.NaN()})
		devtest.Must(t, err)
		return ops.Values[int](h)
	}
	equal(t, []int{0, 2, 255, 0, 255}, near(ops.UInt8))
	equal(t, []int{-2, 2, math.MaxInt32, -math.MaxInt32, math.MaxInt32}, near(ops.Int32))
	equal(t, []int{-2, 2, math.MaxInt, -math.MaxInt, math.MaxInt}, near(ops.Float32))
	h, err := ops.NewHost(nil, ops.Float32, []float64{0.1})
	devtest.Must(t, err)
	equal(t, []float64{float64(float32(0.1))}, ops.Values[float64](h))
}

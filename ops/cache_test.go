package ops_test

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func (b *bench) tensor(m ops.MemoryConfig, dt ops.DataType, shape ...int) *ops.Tensor {
	b.Helper()
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]uint32, n)
	for i := range v {
		v[i] = uint32(i)
	}
	h := value(ops.NewHost(shape, dt, v))(b)
	return b.ok(b.ToDevice(b.ctx, h, ops.RowMajor, m))
}

func (b *bench) ok(t *ops.Tensor, err error) *ops.Tensor {
	b.Helper()
	b.must(err)
	return t
}

func (b *bench) holds(t *ops.Tensor, want ...uint32) {
	b.Helper()
	h := b.toHost(t)
	equal(b, want, ops.Values[uint32](h))
}

func TestProgramCache(t *testing.T) {
	b := open(t, sim.Wormhole())
	x, y := b.tensor(dram, ops.UInt32, 4), b.tensor(dram, ops.UInt32, 4)
	first := b.ok(b.Add(b.ctx, x, y))
	entries := b.ProgramCacheEntries()
	second := b.ok(b.Add(b.ctx, first, y))
	expect.Equal(t, [2]int{b.ProgramCacheEntries(), entries}, [2]int{entries, 1}, "programs at the end and before")
	b.holds(first, 0, 2, 4, 6)
	b.holds(second, 0, 3, 6, 9)
	b.ok(b.Multiply(b.ctx, x, y))
	b.ok(b.Add(b.ctx, b.tensor(l1, ops.UInt32, 4), y))
	expect.Equal(t, b.ProgramCacheEntries(), 3, "programs after another operation and another memory")
	b.must(b.ClearProgramCache(b.ctx))
	expect.Equal(t, b.ProgramCacheEntries(), 0, "programs after clearing")
	b.holds(b.ok(b.Add(b.ctx, second, y)), 0, 4, 8, 12)
}

func TestTraceOfOperations(t *testing.T) {
	b := open(t, sim.Blackhole())
	x, y := b.tensor(l1, ops.Int32, 2, 3), b.tensor(l1, ops.Int32, 1, 3)
	sum, product := b.ok(b.Empty(b.ctx, x.Spec())), b.ok(b.Empty(b.ctx, x.Spec()))
	run := func(ctx context.Context) error {
		if _, err := b.Add(ctx, x, y, ops.Into(sum)); err != nil {
			return err
		}
		_, err := b.Add(ctx, sum, y, ops.Into(product))
		return err
	}
	b.must(run(b.ctx))
	tr := b.capture("sums", run)
	h := value(ops.NewHost([]int{2, 3}, ops.Int32, []int32{10, 20, 30, -10, -20, -30}))(b)
	b.must(b.CopyHostToDevice(b.ctx, h, x))
	b.must(tr.Replay(b.ctx))
	minus := func(n uint32) uint32 { return -n }
	b.holds(sum, 10, 21, 32, minus(10), minus(19), minus(28))
	b.holds(product, 10, 22, 34, minus(10), minus(18), minus(26))
	b.must(b.Deallocate(y))
	other := b.tensor(l1, ops.Int32, 1, 3)
	if other.Address() == y.Address() {
		t.Errorf("the memory of a tensor that a trace uses was given away")
	}
	b.must(tr.Replay(b.ctx))
	b.must(tr.Release(b.ctx))
}

func TestCacheMissDuringCapture(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.tensor(dram, ops.UInt32, 4)
	out := b.ok(b.Empty(b.ctx, x.Spec()))
	var got error
	_, err := b.Capture(b.ctx, "cold", func(ctx context.Context) error {
		_, got = b.Relu(ctx, x, ops.Into(out))
		return nil
	})
	var miss *ops.CacheMissError
	if !errors.As(got, &miss) || !errors.Is(got, ops.ErrCacheMiss) || !errors.Is(got, reprise.ErrInCapture) ||
		!strings.Contains(miss.Key, "DataType::UINT32") {
		t.Errorf("in the capture: %v", got)
	}
	expect.Fails(t, err, reprise.ErrInCapture, "of the capture")
	if _, err := b.Capture(b.ctx, "allocates", func(ctx context.Context) error { return failure(b.Relu(ctx, x)) }); !errors.Is(err,
		reprise.ErrInCapture) {
		t.Errorf("a result that has to be allocated: %v", err)
	}
	expect.Equal(t, b.ProgramCacheEntries(), 0, "programs in the cache")
	b.ok(b.Relu(b.ctx, x, ops.Into(out)))
	tr := b.capture("warm", func(ctx context.Context) error { return failure(b.Relu(ctx, x, ops.Into(out))) })
	b.must(tr.Release(b.ctx))
}

func TestOperationsThatCannotBe(t *testing.T) {
	b := open(t, sim.Wormhole())
	x, y := b.tensor(dram, ops.UInt32, 4, 3), b.tensor(dram, ops.Float32, 4, 3)
	gone := b.tensor(dram, ops.UInt32, 4, 3)
	b.must(b.Deallocate(gone))
	other := open(t, sim.Wormhole())
	foreign := other.tensor(dram, ops.UInt32, 4, 3)
	host := &ops.Host{Shape: []int{2, 2}, DType: ops.UInt32, Data: make([]byte, 16)}
	short := b.tensor(dram, ops.UInt32, 2, 3)
	wide := b.ok(b.Empty(b.ctx, ops.Spec{Shape: []int{1, 1 << 20}, DType: ops.UInt32, Memory: dram}))
	tile := ops.Spec{Shape: []int{64, 64}, Layout: ops.Tile, Memory: ops.Sharded(allocator.HeightSharded, 16, 64, chip.Grid(4, 1))}
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	if err := failure(b.Relu(b.ctx, wide)); !errors.As(err, new(*dispatch.ProgramError)) {
		t.Errorf("no room for a row: %v is no program error", err)
	}
	b.refused(before, map[string]refusal{
		"types":         {failure(b.Add(b.ctx, x, y)), ops.ErrDataType},
		"shapes":        {failure(b.Add(b.ctx, x, short)), ops.ErrShape},
		"matrices":      {failure(b.Matmul(b.ctx, x, x)), ops.ErrShape},
		"float product": {failure(b.Matmul(b.ctx, x, x, ops.WithDataType(ops.Float32))), ops.ErrShape},
		"freed":         {failure(b.Relu(b.ctx, gone)), ops.ErrReleased},
		"freed twice":   {b.Deallocate(gone), ops.ErrReleased},
		"nil":           {failure(b.Add(b.ctx, x, nil)), ops.ErrShape},
		"foreign":       {failure(b.Add(b.ctx, x, foreign)), ops.ErrWrongDevice},
		"into another":  {failure(b.Relu(b.ctx, x, ops.Into(y))), ops.ErrShape},
		"no dimension":  {failure(b.Concat(b.ctx, []*ops.Tensor{x, x}, 2)), ops.ErrShape},
		"-1 times":      {failure(b.Repeat(b.ctx, x, []int{-1, 1})), ops.ErrShape},
		"no shards":     {failure(b.Reshard(b.ctx, x, dram)), ops.ErrMemory},
		"odd tile":      {failure(b.Empty(b.ctx, tile)), ops.ErrMemory},
		"host":          {b.CopyHostToDevice(b.ctx, host, x), ops.ErrShape},
		"too large":     {failure(b.Empty(b.ctx, ops.Spec{Shape: []int{1 << 20, 1 << 20}, Memory: dram})), reprise.ErrOutOfMemory},
	})
}

func TestResultsOverlap(t *testing.T) {
	b := open(t, sim.Wormhole())
	x, other := b.zeros(dram, 2, 1, 64, 64), b.zeros(dram, 2, 1, 64, 64)
	view := b.ok(b.Reshape(b.ctx, x, []int{1, 2, 64, 64}))
	c := value(x.Spec().BufferConfig("shared"))(b)
	buf := value(b.dev.NewBuffer(c))(b)
	first, second := b.ok(b.FromBuffer(buf, x.Spec())), b.ok(b.FromBuffer(buf, x.Spec()))
	part := value(buf.Sub(2048, 2048))(b)
	qkv, q := b.zeros(dram, 1, 1, 32, 96), b.zeros(dram, 1, 1, 32, 32)
	split := func(out ...*ops.Tensor) error {
		_, err := b.SplitHeads(b.ctx, qkv, 1, 1, ops.IntoEach(out...))
		return err
	}
	for name, c := range map[string]struct {
		err           error
		result, other *ops.Tensor
	}{
		"itself":    {failure(b.Exp(b.ctx, x, ops.Into(x))), x, x},
		"view":      {failure(b.Transpose(b.ctx, view, 2, 3, ops.Into(x))), x, view},
		"of a list": {failure(b.Concat(b.ctx, []*ops.Tensor{other, view}, 0, ops.Into(x))), x, view},
		"buffer":    {failure(b.Add(b.ctx, other, first, ops.Into(second))), second, first},
		"cache":     {b.UpdateCache(b.ctx, x, view, 0), x, view},
		"results":   {split(q, q, q), q, q},
	} {
		var o *ops.OverlapError
		if !errors.As(c.err, &o) || o.Result != c.result || o.Other != c.other {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	fails(t, failure(b.FromBuffer(part, q.Spec())), ops.ErrMemory, "a part of a buffer")
	b.must(part.Release())
	m := ops.Sharded(allocator.HeightSharded, 32, 64, chip.Grid(2, 1))
	h := value(ops.NewHost([]int{64, 64}, ops.UInt32, slices.Repeat([]uint32{3}, 64*64)))(b)
	in := b.ok(b.ToDevice(b.ctx, h, ops.Tile, m))
	got := b.toHost(b.ok(b.Add(b.ctx, in, b.ok(b.Reshape(b.ctx, in, []int{64, 64})))))
	equal(t, slices.Repeat([]uint32{6}, 64*64), ops.Values[uint32](got), "a tensor and a view of its shards")
}

func TestOptionsNotTaken(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.zeros(dram, 32, 32)
	options := map[string]ops.OpOption{
		"WithMemoryConfig": ops.WithMemoryConfig(dram), "Into": ops.Into(x), "IntoEach": ops.IntoEach(x), "IntoMesh": ops.IntoMesh(nil), "WithDataType": ops.WithDataType(ops.Float32),
		"WithActivation": ops.WithActivation(ops.ReLU), "WithMatmulProgram": ops.WithMatmulProgram(ops.MatmulProgram{}),
		"WithTransposeA": ops.WithTransposeA(), "WithTransposeB": ops.WithTransposeB(), "WithParam": ops.WithParam("p"),
		"WithLayout": ops.WithLayout(ops.Tile), "WithSteps": ops.WithSteps(1, 1), "WithDim": ops.WithDim(0), "WithSmallest": ops.WithSmallest(),
	}
	const usual, product = "WithMemoryConfig Into ", "WithDataType WithActivation WithMatmulProgram WithTransposeA WithTransposeB"
	takes := map[string]string{
		"Matmul": usual + product, "Linear": usual + product, "Conv2d": usual + "WithDataType WithActivation", "Dequantize": usual + "WithDataType",
		"ScaledDotProductAttentionDecode": usual + "WithParam", "RotaryEmbedding": usual + "WithParam", "UpdateCache": "WithParam",
		"FillCache": "WithParam", "SplitHeads": "WithMemoryConfig IntoEach", "TopK": "WithMemoryConfig IntoEach WithDim WithSmallest",
		"Embedding": usual + "WithLayout", "ArgMax": usual + "WithDim", "Slice": usual + "WithSteps", "ToMemoryConfig": "Into", "Reshard": "Into",
	}
	device := reflect.ValueOf(b.Device)
	for i := range device.NumMethod() {
		f, method := device.Method(i).Type(), device.Type().Method(i).Name
		last := f.NumIn() - 1
		if !f.IsVariadic() || f.In(last) != reflect.TypeFor[[]ops.OpOption]() {
			continue
		}
		want := strings.Fields(cmp.Or(takes[method], usual))
		for name, o := range options {
			in := []reflect.Value{reflect.ValueOf(b.ctx)}
			for k := range last - 1 {
				in = append(in, reflect.Zero(f.In(1+k)))
			}
			out := device.Method(i).Call(append(in, reflect.ValueOf(o)))
			var e *ops.OptionError
			if errors.As(out[len(out)-1].Interface().(error), &e) == slices.Contains(want, name) {
				t.Errorf("%s takes %q, and %s gave %v", method, want, name, e)
			} else if e != nil && (!slices.Equal(e.Takes, want) || !slices.Equal(e.Options, []string{name})) {
				t.Error(e)
			}
		}
	}
	rows := b.tensor(dram, ops.Float32, 32, 32)
	for _, err := range []error{failure(b.Exp(b.ctx, x, ops.Into(b.zeros(dram, 32, 32)), ops.WithMemoryConfig(l1))),
		failure(b.Matmul(b.ctx, rows, rows, ops.WithMatmulProgram(ops.MatmulProgram{Form: ops.MatmulBlocked})))} {
		expect.Fails(t, err, ops.ErrMemory, "error")
	}
}

func embed(indices, table *plain) *plain {
	d := [4]int{indices.dims[1], indices.dims[2], indices.dims[3], table.dims[3]}
	return make4(d, table.dtype, func(n, c, h, w int) float64 {
		if i := indices.at(0, n, c, h); i >= 0 && i < float64(table.dims[2]) {
			return table.at(0, 0, int(i), w)
		}
		return 0
	})
}

func topK(a *plain, k int) (values, indices *plain) {
	d := a.dims
	d[3] = k
	var order []int
	at := func(n, c, h, w int) int {
		if w == 0 {
			order = nil
			for i := range a.dims[3] {
				order = append(order, i)
			}
			slices.SortStableFunc(order, func(i, k int) int {
				return cmp.Compare(ranked(a.at(n, c, h, k)), ranked(a.at(n, c, h, i)))
			})
		}
		return order[w]
	}
	values = make4(d, a.dtype, func(n, c, h, w int) float64 { return a.at(n, c, h, at(n, c, h, w)) })
	return values, make4(d, ops.UInt16, func(n, c, h, w int) float64 { return float64(at(n, c, h, w)) })
}

func (r room) embedding(b *bench, t *rapid.T, ta *ops.Tensor, a *plain, put func(string, *plain) *ops.Tensor) (*ops.Tensor, *plain) {
	dims := [4]int{1, rapid.IntRange(1, 2).Draw(t, "c"), rapid.IntRange(1, 3).Draw(t, "h"), rapid.IntRange(1, 40).Draw(t, "indices")}
	seed := rapid.Uint64().Draw(t, "index")
	i := make4(dims, rapid.SampledFrom(types[:4]).Draw(t, "type of indices"), func(_, _, _, _ int) float64 {
		seed = seed*6364136223846793005 + 1442695040888963407
		return float64(seed >> 33 % uint64(a.dims[2]+1))
	})
	ti := put("indices", i)
	three, err := b.Reshape(b.ctx, ti, dims[1:])
	expect.Must(t, err)
	l, m := r.place(t, "to", [4]int{dims[1], dims[2], dims[3], a.dims[3]})
	got, err := b.Embedding(b.ctx, three, ta, ops.WithLayout(l), ops.WithMemoryConfig(m))
	if e := b.Deallocate(three); err != nil || e != nil {
		t.Fatal(err, e)
	}
	return got, embed(i, a)
}

func TestEmbeddingAndTopK(t *testing.T) {
	onBackends(t, func(b *bench) {
		table := normal([4]int{1, 1, 50, 40}, ops.BFloat16, 1)
		n := 0.
		chosen := make4([4]int{1, 1, 2, 40}, ops.UInt32, func(_, _, _, _ int) float64 { n += 7; return float64(int(n) % 51) })
		tt := b.put(table, ops.RowMajor, dram)
		ti := b.ok(b.Reshape(b.ctx, b.put(chosen, ops.RowMajor, dram), []int{2, 40}))
		want := embed(&plain{[4]int{1, 1, 2, 40}, ops.UInt32, chosen.v}, table)
		for _, l := range []ops.Layout{ops.RowMajor, ops.Tile} {
			got := b.ok(b.Embedding(b.ctx, ti, tt, ops.WithLayout(l)))
			if s := got.Spec(); !slices.Equal(s.Shape, []int{2, 40, 40}) || s.Layout != l {
				b.Errorf("%v", s)
			}
			equal(b, want.v, b.get(got))
			x := normal([4]int{1, 1, 33, 40}, ops.BFloat16, 2)
			values, indices, err := b.TopK(b.ctx, b.put(x, l, dram), 35)
			b.must(err)
			v, i := topK(x, 35)
			equal(b, v.v, b.get(values))
			equal(b, i.v, b.get(indices))
		}
	})
}

func TestTopKInTrace(t *testing.T) {
	b := open(t, sim.Wormhole())
	a := b.tensor(dram, ops.Int32, 2, 5)
	values, indices, err := b.TopK(b.ctx, a, 2)
	b.must(err)
	b.holds(values, 4, 3, 9, 8)
	v, i := b.ok(b.Empty(b.ctx, values.Spec())), b.ok(b.Empty(b.ctx, indices.Spec()))
	tr := b.capture("top", func(ctx context.Context) error {
		_, _, err := b.TopK(ctx, a, 2, ops.IntoEach(v, i))
		return err
	})
	b.must(tr.Replay(b.ctx))
	b.holds(v, 4, 3, 9, 8)
	b.holds(i, 4, 3, 4, 3)
	b.must(tr.Release(b.ctx))
	if _, _, err := b.TopK(b.ctx, a, 2, ops.IntoEach(v)); !errors.Is(err, ops.ErrShape) {
		t.Error(err)
	}
	for _, k := range []int{0, 6, -1} {
		if _, _, err := b.TopK(b.ctx, a, k); !errors.Is(err, ops.ErrShape) {
			t.Errorf("%d: %v", k, err)
		}
	}
}

func TestEmbeddingErrors(t *testing.T) {
	b := open(t, sim.Wormhole())
	table, indices := b.tensor(dram, ops.Float32, 3, 4), b.tensor(dram, ops.UInt32, 4)
	tiles := b.ok(b.Tilize(b.ctx, table))
	for _, c := range []struct {
		indices, table *ops.Tensor
		want           error
	}{
		{table, table, ops.ErrDataType},
		{b.tensor(dram, ops.UInt32, 1, 1, 1, 1, 1, 1, 1, 4), table, ops.ErrShape},
		{indices, b.tensor(dram, ops.UInt32, 2, 3, 4), ops.ErrShape},
		{indices, tiles, ops.ErrMemory},
	} {
		fails(t, failure(b.Embedding(b.ctx, c.indices, c.table)), c.want, "%v and %v", c.indices.Spec(), c.table.Spec())
	}
}

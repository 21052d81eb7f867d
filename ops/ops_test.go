package ops_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func host(t *rapid.T, p *plain) *ops.Host {
	h := &ops.Host{Shape: p.dims[:], DType: p.dtype}
	if p.dtype.Float() {
		v := make([]float32, len(p.v))
		for i, x := range p.v {
			v[i] = float32(x)
		}
		return must(t)(ops.NewHost(h.Shape, p.dtype, v))
	}
	v := make([]uint32, len(p.v))
	for i, x := range p.v {
		v[i] = uint32(int64(x))
	}
	return must(t)(ops.NewHost(h.Shape, p.dtype, v))
}

func must(t *rapid.T) func(*ops.Host, error) *ops.Host {
	return func(h *ops.Host, err error) *ops.Host {
		t.Helper()
		devtest.Must(t, err)
		return h
	}
}

func kept(b *bench, t *rapid.T) (ok func(error), keep func(*ops.Tensor, error) *ops.Tensor, release func()) {
	ok = func(err error) {
		t.Helper()
		devtest.Must(t, err)
	}
	var live []*ops.Tensor
	keep = func(x *ops.Tensor, err error) *ops.Tensor {
		t.Helper()
		ok(err)
		live = append(live, x)
		return x
	}
	return ok, keep, func() {
		for _, x := range live {
			ok(b.Deallocate(x))
		}
	}
}

func same(t *rapid.T, what string, got *ops.Host, want *plain) {
	t.Helper()
	w := host(t, want)
	if d := cmp.Diff(w.DType, got.DType); d != "" {
		t.Fatal(d)
	}
	size := w.DType.Size()
	if len(got.Data) != len(w.Data) {
		t.Fatalf("%s: %d B, want %d", what, len(got.Data), len(w.Data))
	}
	f, g := ops.Values[float32](got), ops.Values[float32](w)
	for i := range f {
		a, b := got.Data[i*size:(i+1)*size], w.Data[i*size:(i+1)*size]
		if string(a) != string(b) && (!w.DType.Float() || f[i] == f[i] || g[i] == g[i]) {
			t.Fatalf("%s: element %d of %v: %x, want %x", what, i, want.dims, a, b)
		}
	}
}

var types = []ops.DataType{ops.UInt8, ops.UInt16, ops.UInt32, ops.Int32, ops.BFloat16, ops.Float32}

var awkward = []uint32{
	0, 1 << 31, 1, 1<<31 | 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3F800000, 0x33800000,
	0x34000000, 0x00400000,
}

func values(t *rapid.T, name string, dims [4]int, dt ops.DataType) *plain {
	wild := rapid.Bool().Draw(t, name+" wild")
	seed := rapid.Uint64().Draw(t, name)
	next := func() uint64 { seed = seed*6364136223846793005 + 1442695040888963407; return seed >> 24 }
	return make4(dims, dt, func(_, _, _, _ int) float64 {
		r := next()
		switch {
		case !dt.Float():
			return fit(dt, int64(r), 0)
		case wild && r%8 == 0:
			return fit(dt, 0, math.Float32frombits(awkward[r>>8%uint64(len(awkward))]))
		case wild:
			return fit(dt, 0, math.Float32frombits(uint32(r>>3)))
		}
		return fit(dt, 0, float32(int32(r))/(1<<20))
	})
}

type room struct {
	side     int // of the square of cores that shards are on
	elements int // of a tensor
}

var large = room{side: 7, elements: 9600}

func (r room) place(t *rapid.T, name string, dims [4]int) (ops.Layout, ops.MemoryConfig) {
	l := rapid.SampledFrom([]ops.Layout{ops.RowMajor, ops.Tile}).Draw(t, name+" layout")
	return l, r.memory(t, name, dims, l)
}

func (r room) memory(t *rapid.T, name string, dims [4]int, l ops.Layout) ops.MemoryConfig {
	kind := rapid.SampledFrom([]allocator.Kind{allocator.L1, allocator.DRAM}).Draw(t, name+" memory")
	layout := rapid.SampledFrom([]allocator.Layout{allocator.Interleaved, allocator.HeightSharded, allocator.WidthSharded,
		allocator.BlockSharded}).Draw(t, name+" pages")
	if layout == allocator.Interleaved || kind == allocator.DRAM {
		return ops.Interleaved(kind)
	}
	unit, high := 1, dims[2]
	if l == ops.Tile {
		unit, high = 32, (high+31)/32
	}
	rows, columns := dims[0]*dims[1]*high, (dims[3]+unit-1)/unit
	if rows*columns*unit*unit*4 > r.side*r.side<<18 {
		return dram // more than the cores' memories have room for
	}
	h, w := rows, columns
	if layout != allocator.WidthSharded {
		h = rapid.IntRange((rows+r.side-1)/r.side, rows).Draw(t, name+" shard height")
	}
	if layout != allocator.HeightSharded {
		w = rapid.IntRange((columns+r.side-1)/r.side, columns).Draw(t, name+" shard width")
	}
	m := ops.Sharded(layout, h*unit, w*unit, chip.Grid(r.side, r.side))
	m.Shard.Columns = rapid.Bool().Draw(t, name+" along columns")
	return m
}

func (r room) dims(t *rapid.T, name string) [4]int {
	var d [4]int
	left := r.elements
	for i, most := range []int{2, 3, 40, 40} {
		d[i] = rapid.IntRange(1, min(most, left)).Draw(t, name+" "+"nchw"[i:i+1])
		left /= d[i]
	}
	return d
}

type shardsOf struct {
	layout     allocator.Layout
	high, wide int
}

func floats(in ...*ops.Tensor) bool {
	return !slices.ContainsFunc(in, func(t *ops.Tensor) bool { return !t.Spec().DType.Float() })
}

var operations = [][]string{{"add", "subtract", "multiply", "relu", "repeat", "slice", "move"}, {"in shards"}, {"concat"}, {"matmul"},
	{"argmax"}, {"permute", "pad", "steps", "reshape", "tilize"}, {"embedding"}, {"top k"}}

func (r room) check(b *bench, t *rapid.T, names ...string) {
	ok, keep, release := kept(b, t)
	defer release()
	put := func(name string, p *plain) *ops.Tensor {
		l, m := r.place(t, name, p.dims)
		return keep(b.ToDevice(b.ctx, host(t, p), l, m))
	}
	get := func(x *ops.Tensor) *ops.Host { return must(t)(b.ToHost(b.ctx, x)) }

	dt := rapid.SampledFrom(types).Draw(t, "type")
	da := r.dims(t, "a")
	a := values(t, "a", da, dt)
	ta := put("a", a)
	switch op := rapid.SampledFrom(names).Draw(t, "op"); op {
	case "add", "subtract", "multiply":
		db := da
		for i := range db {
			if rapid.Bool().Draw(t, "broadcast") {
				db[i] = 1
			}
		}
		p := values(t, "b", db, dt)
		tp := put("b", p)
		if rapid.Bool().Draw(t, "swap") {
			a, p, ta, tp = p, a, tp, ta
		}
		f := b.binary(op, ta, tp)
		same(t, op, get(keep(f.device(b.ctx, ta, tp))), f.host(a, p))
	case "relu":
		want := relu
		if floats(ta) {
			want = b.engines().relu
		}
		same(t, op, get(keep(b.Relu(b.ctx, ta))), want(a))
	case "repeat":
		times := [4]int{rapid.IntRange(1, 2).Draw(t, "n times"), rapid.IntRange(1, 2).Draw(t, "c times"),
			rapid.IntRange(1, 2).Draw(t, "h times"), rapid.IntRange(1, 2).Draw(t, "w times")}
		same(t, op, get(keep(b.Repeat(b.ctx, ta, times[:]))), repeat(a, times))
	case "slice":
		var begin, end [4]int
		for i, n := range da {
			begin[i] = rapid.IntRange(0, n-1).Draw(t, "begin")
			end[i] = rapid.IntRange(begin[i]+1, n).Draw(t, "end")
		}
		l := ta.Spec().Layout
		to := [4]int{end[0] - begin[0], end[1] - begin[1], end[2] - begin[2], end[3] - begin[3]}
		same(t, op, get(keep(b.Slice(b.ctx, ta, begin[:], end[:], ops.WithMemoryConfig(r.memory(t, "to", to, l))))), slice(a, begin, end))
	case "in shards": // of four cores, which lie in the same way
		high, wide := rapid.IntRange(1, 3).Draw(t, "shard height"), rapid.IntRange(1, 2).Draw(t, "shard width")*64/dt.Size()
		shards := rapid.SampledFrom([]shardsOf{{allocator.HeightSharded, 4, 1}, {allocator.WidthSharded, 1, 4},
			{allocator.BlockSharded, 2, 2}}).Draw(t, "shards")
		da := [4]int{1, 1, high * shards.high, wide * shards.wide}
		m := ops.Sharded(shards.layout, high, wide, chip.Grid(2, 2))
		lie := func(name string) (*plain, *ops.Tensor) {
			p := values(t, name, da, dt)
			return p, keep(b.ToDevice(b.ctx, host(t, p), ops.RowMajor, m))
		}
		x, tx := lie("x")
		y, ty := lie("y")
		// The second time the same cores have other data at the same addresses.
		for _, again := range []string{"", " again"} {
			if again != "" {
				x = values(t, "x again", da, dt)
				ok(b.CopyHostToDevice(b.ctx, host(t, x), tx))
			}
			switch rapid.IntRange(0, 2).Draw(t, "op in shards"+again) {
			case 0:
				same(t, "add in shards"+again, get(keep(b.Add(b.ctx, tx, ty))), b.binary("add", tx, ty).host(x, y))
			case 1:
				same(t, "multiply in shards"+again, get(keep(b.Multiply(b.ctx, tx, ty))), b.binary("multiply", tx, ty).host(x, y))
			default:
				want := relu
				if floats(tx) {
					want = b.engines().relu
				}
				same(t, "relu in shards"+again, get(keep(b.Relu(b.ctx, tx))), want(x))
			}
		}
	case "concat":
		dim := rapid.IntRange(0, 3).Draw(t, "dim")
		whole, parts := a, []*ops.Tensor{ta}
		for i := range rapid.IntRange(1, 3).Draw(t, "others") {
			db := da
			db[dim] = rapid.IntRange(1, 3).Draw(t, "more")
			p := values(t, fmt.Sprint("b", i), db, dt)
			whole, parts = concat(whole, p, dim), append(parts, put(fmt.Sprint("b", i), p))
		}
		same(t, op, get(keep(b.Concat(b.ctx, parts, dim))), whole)
	case "matmul":
		db := [4]int{1, da[1], da[3], rapid.IntRange(1, 10).Draw(t, "n")}
		p := values(t, "b", db, dt)
		to := dt
		if rapid.Bool().Draw(t, "convert") {
			if to = rapid.SampledFrom(types[:4]).Draw(t, "to"); dt.Float() {
				to = rapid.SampledFrom(types[4:]).Draw(t, "to float")
			}
		}
		tp := put("b", p)
		want := matmul
		if floats(ta, tp) {
			want = b.engines().matmul
		}
		same(t, op, get(keep(b.Matmul(b.ctx, ta, tp, ops.WithDataType(to)))), want(a, p, to))
	case "argmax":
		same(t, op, get(keep(b.ArgMax(b.ctx, ta, true))), argmax(a))
	case "embedding":
		if s := ta.Spec(); s.Layout != ops.RowMajor || s.Memory.Shard != nil && s.Memory.Shard.Shape[1] < da[3] || da[0] != 1 ||
			da[1] != 1 {
			a = values(t, "table", [4]int{1, 1, da[2], da[3]}, dt)
			ta = keep(b.ToDevice(b.ctx, host(t, a), ops.RowMajor, dram))
		}
		got, want := r.embedding(b, t, ta, a, put)
		same(t, op, get(keep(got, nil)), want)
	case "top k":
		k := rapid.IntRange(1, da[3]).Draw(t, "k")
		v, i, err := b.TopK(b.ctx, ta, k)
		values, indices := topK(a, k)
		same(t, op, get(keep(v, err)), values)
		same(t, op, get(keep(i, err)), indices)
	case "permute", "pad", "steps", "reshape", "tilize":
		got, want := r.rearrange(op, b, t, ta, a)
		same(t, op, get(keep(got, nil)), want)
	default:
		m := r.memory(t, "to", da, ta.Spec().Layout)
		same(t, op, get(keep(b.ToMemoryConfig(b.ctx, ta, m))), a)
		l := rapid.SampledFrom([]ops.Layout{ops.RowMajor, ops.Tile}).Draw(t, "to layout")
		same(t, "to layout", get(keep(b.ToLayout(b.ctx, ta, l, ops.WithMemoryConfig(dram)))), a)
	}
}

func TestOperationsAgreeWithTheHost(t *testing.T) {
	effort.Long(t)
	open4 := map[string]*bench{}
	var names []string
	for name, card := range cards {
		open4[name] = open(t, card())
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		large.check(open4[rapid.SampledFrom(names).Draw(t, "card")], t, slices.Concat(operations...)...)
	})
}

func TestOperationsOnTheVendorsSimulator(t *testing.T) {
	for _, v := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
		t.Run(v, func(t *testing.T) {
			b := open(t, ttsimtest.Card(t, v))
			fixed(b)
		})
	}
}

func fixed(b *bench) {
	b.Helper()
	up := func(dims [4]int, l ops.Layout, m ops.MemoryConfig) (*plain, *ops.Tensor) {
		b.Helper()
		p := make4(dims, ops.BFloat16, func(n, c, h, w int) float64 { return float64(bfloat(float32(n+2*c-h+w) / 3)) })
		v := make([]float32, len(p.v))
		for i := range v {
			v[i] = float32(p.v[i])
		}
		h, err := ops.NewHost(dims[:], ops.BFloat16, v)
		b.must(err)
		t, err := b.ToDevice(b.ctx, h, l, m)
		b.must(err)
		return p, t
	}
	down := func(want *plain) func(*ops.Tensor, error) {
		return func(t *ops.Tensor, err error) {
			b.Helper()
			b.must(err)
			h, err := b.ToHost(b.ctx, t)
			b.must(err)
			got := make([]float64, 0, len(want.v))
			for _, x := range ops.Values[float32](h) {
				got = append(got, float64(x))
			}
			if d := cmp.Diff(want.v, got); d != "" {
				b.Error(fmt.Sprintf("%v: ", want.dims), d)
			}
		}
	}
	a, ta := up([4]int{2, 1, 32, 32}, ops.Tile, l1)
	c, tc := up([4]int{1, 1, 32, 32}, ops.Tile, l1)
	e, te := up([4]int{1, 1, 5, 7}, ops.RowMajor, dram)
	f, tf := up([4]int{1, 1, 7, 3}, ops.RowMajor, ops.Sharded(allocator.HeightSharded, 3, 3, chip.Grid(3, 1)))
	down(b.engines().add(a, c))(b.Add(b.ctx, ta, tc))
	down(b.engines().multiply(a, c))(b.Multiply(b.ctx, ta, tc))
	down(b.engines().relu(a))(b.Relu(b.ctx, ta))
	down(b.engines().subtract(e, e))(b.Subtract(b.ctx, te, te))
	down(repeat(e, [4]int{1, 2, 1, 2}))(b.Repeat(b.ctx, te, []int{1, 2, 1, 2}))
	down(concat(a, c, 0))(b.Concat(b.ctx, []*ops.Tensor{ta, tc}, 0))
	down(b.engines().matmul(e, f, ops.BFloat16))(b.Matmul(b.ctx, te, tf))
	down(argmax(e))(b.ArgMax(b.ctx, te, true))
	down(f)(b.Reshard(b.ctx, tf, ops.Sharded(allocator.WidthSharded, 7, 2, chip.Grid(1, 2))))
	down(e)(b.ToMemoryConfig(b.ctx, te, l1))
	down(a)(b.ToLayout(b.ctx, ta, ops.RowMajor))
	down(slice(a, [4]int{1, 0, 3, 5}, [4]int{2, 1, 20, 30}))(b.Slice(b.ctx, ta, []int{1, 0, 3, 5}, []int{2, 1, 20, 30}))
	shards := ops.Sharded(allocator.BlockSharded, 32, 32, chip.Grid(1, 2))
	g, tg := up([4]int{2, 1, 32, 32}, ops.Tile, shards)
	h, th := up([4]int{2, 1, 32, 32}, ops.Tile, shards)
	down(b.engines().add(g, h))(b.Add(b.ctx, tg, th))
	down(concat(concat(a, c, 0), g, 0))(b.Concat(b.ctx, []*ops.Tensor{ta, tc, tg}, 0))
}

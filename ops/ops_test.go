package ops_test

import (
	"context"
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
	"github.com/reprise-tt/reprise/sim"
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
		h := value(ops.NewHost(dims[:], ops.BFloat16, v))(b)
		t := value(b.ToDevice(b.ctx, h, l, m))(b)
		return p, t
	}
	down := func(want *plain) func(*ops.Tensor, error) {
		return func(t *ops.Tensor, err error) {
			b.Helper()
			b.must(err)
			h := b.toHost(t)
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

// The same operations in plain Go, on four-dimensional tensors.

type plain struct {
	dims  [4]int
	dtype ops.DataType
	v     []float64 // integers as they are, floats exactly
}

func (p *plain) at(n, c, h, w int) float64 {
	d := p.dims
	return p.v[((n%d[0]*d[1]+c%d[1])*d[2]+h%d[2])*d[3]+w%d[3]]
}

func make4(dims [4]int, t ops.DataType, f func(n, c, h, w int) float64) *plain {
	p := &plain{dims: dims, dtype: t}
	for n := range dims[0] {
		for c := range dims[1] {
			for h := range dims[2] {
				for w := range dims[3] {
					p.v = append(p.v, f(n, c, h, w))
				}
			}
		}
	}
	return p
}

func fit(t ops.DataType, i int64, f float32) float64 {
	switch t {
	case ops.UInt8:
		return float64(uint8(i))
	case ops.UInt16:
		return float64(uint16(i))
	case ops.UInt32:
		return float64(uint32(i))
	case ops.Int32:
		return float64(int32(i))
	case ops.Float32:
		return float64(f)
	}
	return float64(bfloat(f))
}

func bfloat(f float32) float32 {
	u := math.Float32bits(f)
	if f != f {
		return float32(math.NaN()) // the host makes one NaN of all
	}
	low := u & 0xFFFF
	u &^= 0xFFFF
	if low > 0x8000 || low == 0x8000 && u&0x10000 != 0 {
		u += 0x10000
	}
	return math.Float32frombits(u)
}

func pairwise(a, b *plain, ints func(x, y int64) int64, floats func(x, y float32) float32) *plain {
	var d [4]int
	for i := range d {
		d[i] = max(a.dims[i], b.dims[i])
	}
	return make4(d, a.dtype, func(n, c, h, w int) float64 {
		x, y := a.at(n, c, h, w), b.at(n, c, h, w)
		if a.dtype.Float() {
			return fit(a.dtype, 0, floats(float32(x), float32(y)))
		}
		return fit(a.dtype, ints(int64(x), int64(y)), 0)
	})
}

func add(a, b *plain) *plain {
	return pairwise(a, b, func(x, y int64) int64 { return x + y }, func(x, y float32) float32 { return x + y })
}

func subtract(a, b *plain) *plain {
	return pairwise(a, b, func(x, y int64) int64 { return x - y }, func(x, y float32) float32 { return x - y })
}

func multiply(a, b *plain) *plain {
	return pairwise(a, b, func(x, y int64) int64 { return x * y }, func(x, y float32) float32 { return x * y })
}

func relu(a *plain) *plain {
	return make4(a.dims, a.dtype, func(n, c, h, w int) float64 {
		if x := a.at(n, c, h, w); x != x || x > 0 {
			return x
		}
		return 0
	})
}

func repeat(a *plain, times [4]int) *plain {
	d := a.dims
	for i := range d {
		d[i] *= times[i]
	}
	return make4(d, a.dtype, a.at)
}

func concat(a, b *plain, dim int) *plain {
	d := a.dims
	d[dim] += b.dims[dim]
	return make4(d, a.dtype, func(n, c, h, w int) float64 {
		i := [4]int{n, c, h, w}
		if i[dim] < a.dims[dim] {
			return a.at(n, c, h, w)
		}
		i[dim] -= a.dims[dim]
		return b.at(i[0], i[1], i[2], i[3])
	})
}

func matmul(a, b *plain, to ops.DataType) *plain {
	d := [4]int{max(a.dims[0], b.dims[0]), max(a.dims[1], b.dims[1]), a.dims[2], b.dims[3]}
	return make4(d, to, func(n, c, h, w int) float64 {
		var i int64
		var f float32
		for k := range a.dims[3] {
			x, y := a.at(n, c, h, k), b.at(n, c, k, w)
			i += int64(x) * int64(y)
			p := float32(float32(x) * float32(y)) // converted, so that no product and sum are fused
			if k == 0 {
				f = p
			} else {
				f = float32(f + p)
			}
		}
		return fit(to, i, f)
	})
}

// ranked maps the numbers of 32 bits to their order.
func ranked(v float64) float64 {
	switch {
	case v != v:
		return math.Copysign(math.Inf(1), v)
	case math.IsInf(v, 0):
		return math.Copysign(math.MaxFloat64, v)
	}
	return v
}

func argmax(a *plain) *plain {
	d := a.dims
	d[3] = 1
	return make4(d, ops.UInt32, func(n, c, h, _ int) float64 {
		best := 0
		for w := range a.dims[3] {
			if ranked(a.at(n, c, h, w)) > ranked(a.at(n, c, h, best)) {
				best = w
			}
		}
		return float64(best)
	})
}

func slice(a *plain, begin, end [4]int) *plain {
	d := end
	for i := range d {
		d[i] -= begin[i]
	}
	return make4(d, a.dtype, func(n, c, h, w int) float64 { return a.at(n+begin[0], c+begin[1], h+begin[2], w+begin[3]) })
}

func TestDivide(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b [4]int
			dt   ops.DataType
			l    ops.Layout
		}{
			{[4]int{1, 2, 40, 70}, [4]int{1, 2, 40, 70}, ops.BFloat16, ops.Tile},
			{[4]int{2, 1, 33, 7}, [4]int{1, 3, 1, 7}, ops.BFloat16, ops.Tile},
			{[4]int{1, 1, 33, 1}, [4]int{1, 1, 1, 35}, ops.Float32, ops.Tile},
			{[4]int{1, 1, 1, 1}, [4]int{1, 1, 33, 40}, ops.Float32, ops.RowMajor},
		} {
			x, y := normal(c.a, c.dt, uint64(2*i)), normal(c.b, c.dt, uint64(2*i+1))
			put := func(p *plain) *ops.Tensor { return b.put(p, c.l, dram) }
			what := fmt.Sprintf("%v %v by %v", c.dt, c.a, c.b)
			got := b.get(b.ok(b.Divide(b.ctx, put(x), put(y))))
			var d [4]int
			for i := range d {
				d[i] = max(c.a[i], c.b[i])
			}
			want := make4(d, c.dt, func(n, ch, h, w int) float64 { return x.at(n, ch, h, w) / y.at(n, ch, h, w) })
			b.everywhere(what, got)
			b.near(what, c.dt, got, want.v, 0x1p-21, 0)
		}
	})
}

func TestWhere(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			condition, a, b [4]int
			dt              ops.DataType
		}{
			{[4]int{1, 2, 40, 70}, [4]int{1, 2, 40, 70}, [4]int{1, 2, 40, 70}, ops.BFloat16},
			{[4]int{1, 1, 33, 1}, [4]int{2, 1, 33, 40}, [4]int{1, 1, 1, 1}, ops.Float32},
			{[4]int{1, 1, 33, 5}, [4]int{1, 1, 1, 5}, [4]int{1, 3, 33, 1}, ops.BFloat16},
		} {
			condition := make4(c.condition, c.dt, func(n, c, h, w int) float64 { return float64((n+c+2*h+3*w)%5 - 2) })
			x, y := normal(c.a, c.dt, uint64(2*i)), normal(c.b, c.dt, uint64(2*i+1))
			put := func(p *plain) *ops.Tensor { return b.put(p, ops.Tile, l1) }
			got := b.get(b.ok(b.Where(b.ctx, put(condition), put(x), put(y))))
			var d [4]int
			for i := range d {
				d[i] = max(c.condition[i], c.a[i], c.b[i])
			}
			want := make4(d, c.dt, func(n, c, h, w int) float64 {
				if condition.at(n, c, h, w) != 0 {
					return x.at(n, c, h, w)
				}
				return y.at(n, c, h, w)
			})
			equal(b, want.v, got, "where %v of %v and %v", c.condition, c.a, c.b)
		}
	})
}

func TestRand(t *testing.T) {
	onBackends(t, func(b *bench) {
		for _, dt := range []ops.DataType{ops.BFloat16, ops.Float32} {
			s := ops.Spec{Shape: []int{2, 40, 70}, DType: dt, Layout: ops.Tile, Memory: dram}
			first := b.get(b.ok(b.Rand(b.ctx, s, -1, 3, 5)))
			b.everywhere("random "+dt.String(), first[:1120]) // of the first tiles, whatever the grid
			entries := b.ProgramCacheEntries()
			second := b.get(b.ok(b.Rand(b.ctx, s, -1, 3, 6)))
			if !slices.Equal(first, b.get(b.ok(b.Rand(b.ctx, s, -1, 3, 5)))) {
				b.Error("numbers don't depend on the seed alone")
			}
			tiles := map[string]int{} // by part of a row
			for i, v := range [][]float64{first, second} {
				for at := 0; at < len(v); at += 70 {
					for _, column := range []int{0, 32} {
						tiles[fmt.Sprint(v[at+column:][:16])] |= 1 << i
					}
				}
			}
			for part, seeds := range tiles {
				if seeds == 3 {
					b.Errorf("two seeds give %s", part)
				}
			}
			if b.ProgramCacheEntries() != entries {
				b.Error("another seed is another program")
			}
			sum, square := 0., 0.
			for _, v := range first {
				if v < -1 || v > 3 {
					b.Fatalf("%v isn't from -1 to 3", v)
				}
				sum, square = sum+v, square+(v-1)*(v-1)
			}
			n := float64(len(first))
			if mean, variance := sum/n, square/n; math.Abs(mean-1) > 0.1 || math.Abs(variance-16./12) > 0.1 {
				b.Errorf("mean %v and variance %v, want 1 and 1.33", mean, variance)
			}
		}
	})
}

func TestElementsRefused(t *testing.T) {
	b := open(t, sim.Wormhole())
	tiles, other := b.zeros(dram, 32, 32), b.zeros(dram, 5, 32)
	rows := b.ok(b.ToLayout(b.ctx, tiles, ops.RowMajor))
	ints := b.ok(b.Typecast(b.ctx, tiles, ops.Int32))
	bytes := b.ok(b.Typecast(b.ctx, tiles, ops.UInt8))
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	b.refused(before, map[string]refusal{
		"quotients of integers":   {failure(b.Divide(b.ctx, ints, ints)), ops.ErrDataType},
		"an unknown type":         {failure(b.Typecast(b.ctx, tiles, 77)), ops.ErrDataType},
		"blocks":                  {failure(b.Typecast(b.ctx, tiles, ops.BFloat8B)), ops.ErrDataType},
		"quantised integers":      {failure(b.Quantize(b.ctx, ints, 1, 0)), ops.ErrDataType},
		"quantised rows":          {failure(b.Quantize(b.ctx, rows, 1, 0)), ops.ErrMemory},
		"a scale of 0":            {failure(b.Quantize(b.ctx, tiles, 0, 0)), ops.ErrShape},
		"a large zero point":      {failure(b.Dequantize(b.ctx, ints, 1, 1<<24+1)), ops.ErrShape},
		"dequantised floats":      {failure(b.Dequantize(b.ctx, tiles, 1, 0)), ops.ErrDataType},
		"dequantised bytes":       {failure(b.Dequantize(b.ctx, bytes, 1, 0)), ops.ErrDataType},
		"dequantised to integers": {failure(b.Dequantize(b.ctx, ints, 1, 0, ops.WithDataType(ops.Int32))), ops.ErrDataType},
		"requantised to scale 0":  {failure(b.Requantize(b.ctx, ints, 1, 0, 0, 0)), ops.ErrShape},
		"where of other heights":  {failure(b.Where(b.ctx, tiles, other, tiles)), ops.ErrShape},
		"where of rows":           {failure(b.Where(b.ctx, tiles, rows, tiles)), ops.ErrMemory},
		"random integers":         {failure(b.Rand(b.ctx, ints.Spec(), 0, 1, 0)), ops.ErrDataType},
		"random rows":             {failure(b.Rand(b.ctx, rows.Spec(), 0, 1, 0)), ops.ErrMemory},
		"no range":                {failure(b.Rand(b.ctx, tiles.Spec(), 1, 0, 0)), ops.ErrShape},
		"no such dimension":       {failure(b.Sum(b.ctx, tiles, -3)), ops.ErrShape},
	})
}

func TestActivations(t *testing.T) {
	onBackends(t, func(b *bench) {
		for activation, f := range map[ops.Activation]func(float64) float64{
			ops.GELU: func(v float64) float64 { return v * math.Erfc(-v/math.Sqrt2) / 2 },
			ops.SiLU: func(v float64) float64 { return v / (1 + math.Exp(-v)) },
		} {
			for _, dt := range []ops.DataType{ops.BFloat16, ops.Float32} {
				x, y, z := normal([4]int{1, 2, 40, 70}, dt, 1), normal([4]int{1, 1, 70, 40}, dt, 2), normal([4]int{1, 1, 1, 40}, dt, 3)
				put := func(p *plain) *ops.Tensor { return b.put(p, ops.Tile, dram) }
				got, at := b.get(b.ok(b.Linear(b.ctx, put(x), put(y), put(z), ops.WithActivation(activation)))), 0
				what := fmt.Sprintf("linear with %s of %v", activation, dt)
				b.everywhere(what, got)
				make4([4]int{1, 2, 40, 40}, dt, func(n, c, h, w int) float64 {
					sum := z.at(0, 0, 0, w)
					size := math.Abs(sum)
					for k := range 70 {
						p := x.at(n, c, h, k) * y.at(0, 0, k, w)
						sum, size = sum+p, size+math.Abs(p)
					}
					tolerance := 1.2 * size / (1 << 12) // their slopes are at most 1.13
					if dt == ops.Float32 {
						tolerance += 1.2 * size / (1 << 10)
					} else {
						tolerance += math.Abs(f(sum)) / (1 << 8)
					}
					if e := math.Abs(got[at]-f(sum)) / tolerance; !(e <= 1) {
						b.Fatalf("%s: %v, want %v: %.2f of the tolerated error", what, got[at], f(sum), e)
					}
					at++
					return 0
				})
			}
		}
	})
}

func BenchmarkHost(b *testing.B) {
	d := open(b, sim.Blackhole())
	tensor := func(shape ...int) *ops.Tensor {
		t, err := d.Empty(d.ctx, ops.Spec{Shape: shape, DType: ops.BFloat16, Layout: ops.Tile, Memory: dram})
		d.must(err)
		return t
	}
	x, y, out := tensor(1, 1, 32, 32), tensor(1, 1, 32, 32), tensor(1, 1, 32, 32)
	for _, op := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"add", func(ctx context.Context) error { _, err := d.Add(ctx, x, y, ops.Into(out)); return err }},
		{"matmul", func(ctx context.Context) error { _, err := d.Matmul(ctx, x, y, ops.Into(out)); return err }},
		{"softmax", func(ctx context.Context) error { _, err := d.Softmax(ctx, x, -1, ops.Into(out)); return err }},
	} {
		d.must(op.run(d.ctx))
		b.Run(op.name, func(b *testing.B) {
			b.ReportAllocs()
			t, err := d.Capture(d.ctx, "t", func(ctx context.Context) error {
				for b.Loop() {
					if err := op.run(ctx); err != nil {
						return err
					}
				}
				return nil
			})
			d.must(err)
			d.must(t.Release(d.ctx))
		})
	}
}

package machines

import (
	"bytes"
	"math"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/mesh"
)

func orderCases() rig.Table {
	var cs rig.Table
	cs.Add("float32 maximum", "the maximum of float32 is right: -0 is less than 0, and a NaN gives the quiet one", OnMesh(floatMax))
	cs.Add("bfloat16 maximum", "the largest bfloat16 comes out of each half of a word", OnMesh(bFloatMax))
	cs.Add("int32 wraps", "sums of int32 wrap around", OnMesh(meshWraps))
	cs.Add("many pages", "a buffer of more pages than links have room for is added up", OnMesh(manyPages))
	cs.Add("rows at once", "submeshes that are apart carry out collectives at the same time", OnMesh(meshRows))
	cs.Add("same bits again", "a sum of floats has the same bits every time, on every chip", OnMesh(sameBits))
	cs.Add("collectives replayed", "collectives in a trace begin anew at each replay", OnMesh(meshReplayed))
	cs.Add("work between collectives", "a program between a reduce_scatter and an all_gather works on the slice of its chip", OnMesh(meshBetween))
	cs.Add("late chip", "chips that are ready wait for a late one, and the result is the same", OnMesh(meshLate))
	cs.Add("links of another core", "any worker can drive the links", OnMesh(otherCore))
	return cs
}

func floatMax(t *T) {
	const nan = 0x7FC00000
	odd := []uint32{0, 1 << 31, 0x7F800000, 0xFF800000, 1, 0x7F800001}
	value := func(c, w int) uint32 {
		if w < 36 { // each of the odd ones beside each
			return odd[[]int{w % 6, w / 6}[c%2]]
		}
		return math.Float32bits(anyFloat(c, w))
	}
	t.floats(mesh.MaxFloat32, value, func(a, b uint32) uint32 {
		x, y := math.Float32frombits(a), math.Float32frombits(b)
		if x != x || y != y {
			return nan
		}
		return math.Float32bits(float32(math.Max(float64(x), float64(y))))
	})
}

func bFloatMax(t *T) {
	high := func(f float32) uint32 { return math.Float32bits(f) &^ 0xFFFF }
	largest := func(a, b uint32) uint32 { return high(max(math.Float32frombits(a), math.Float32frombits(b))) }
	t.floats(mesh.MaxBFloat16, func(c, w int) uint32 { return high(anyFloat(c, 2*w))>>16 | high(anyFloat(c, 2*w+1)) },
		func(a, b uint32) uint32 {
			return largest(a<<16, b<<16)>>16 | largest(a&^0xFFFF, b&^0xFFFF)
		})
}

func meshWraps(t *T) {
	t.floats(mesh.SumInt32, func(c, w int) uint32 { return math.MaxInt32 - uint32(c*w) }, func(a, b uint32) uint32 { return a + b })
}

func manyPages(t *T) {
	t.Linked()
	b := t.ofPages(t.Size(24, 8)+1, 512)
	t.carryOut(t.Links.AllReduce(t.Ctx, b, mesh.SumInt32))
	t.all("sum", b, t.sums(b.Size()))
}

func meshRows(t *T) {
	s := t.Mesh.Shape()
	along := mesh.Shape{1, s[1]}
	if s[1] == 1 {
		along = mesh.Shape{s[0], 1}
	}
	rows, err := t.Mesh.Submeshes(along)
	t.OK(err)
	type row struct {
		*T
		b *mesh.Buffer
		x *mesh.Executable
	}
	var all []row
	for _, m := range rows {
		r := row{T: &T{T: t.T, machine: t.machine, Mesh: m, Queue: m.Queue(0)}}
		r.b = r.Linked()
		r.x, err = r.Links.AllReduce(t.Ctx, r.b, mesh.SumInt32)
		t.OK(err)
		all = append(all, r)
	}
	for _, r := range all {
		t.OK(r.Queue.Run(t.Ctx, r.x))
	}
	for _, r := range all {
		t.WaitFor(r.Queue)
		for _, c := range r.Links.Line() {
			r.Is("sum of a row", c, r.b, r.sums(r.b.Size()))
		}
	}
}

func sameBits(t *T) {
	t.Linked()
	b := t.ofPages(t.Mesh.Size(), 64) // so that a ring is used where there is one
	x, err := t.Links.AllReduce(t.Ctx, b, mesh.SumFloat32)
	t.OK(err)
	var first []byte
	for range 3 {
		for i, c := range t.Links.Line() {
			var p []byte
			for w := range b.Size() / 4 {
				p = rig.AppendWord(p, math.Float32bits(anyFloat(i, w)))
			}
			t.OK(t.Queue.On(c).Write(t.Ctx, b.On(c), 0, p))
		}
		t.carryOut(x, nil)
		for _, c := range t.Links.Line() {
			got := make([]byte, b.Size())
			t.OK(t.Queue.On(c).Read(t.Ctx, b.On(c), 0, got))
			if first == nil {
				first = got
			} else if !bytes.Equal(first, got) {
				t.Errorf("chip %v has other bits: %s", c.Coord, rig.Difference(first, got))
			}
		}
	}
}

func meshReplayed(t *T) {
	b := t.Linked()
	largest, err := t.Links.AllReduce(t.Ctx, b, mesh.MaxInt32)
	t.OK(err)
	sum, err := t.Links.AllReduce(t.Ctx, b, mesh.SumInt32)
	t.OK(err)
	tr := t.recorded(largest, t.Links.Barrier(), sum)
	chips := uint32(t.Mesh.Size())
	for round := range uint32(4) {
		for i, c := range t.Links.Line() {
			t.Put(c, b, 10*round+uint32(i))
		}
		t.Replay(tr)
		var want []byte
		for i := range uint32(b.Size() / 4) {
			want = rig.AppendWord(want, chips*(10*round+chips-1+i))
		}
		t.all("sum of maxima", b, want)
	}
	t.Release(tr)
}

func meshBetween(t *T) {
	b := t.Linked()
	scatter, err := t.Links.ReduceScatter(t.Ctx, b, mesh.SumInt32)
	t.OK(err)
	gather, err := t.Links.AllGather(t.Ctx, b)
	t.OK(err)
	tr := t.recorded(scatter, t.Loaded(t.adder(b, b, Add(7))), gather)
	t.Replay(tr)
	t.Wait()
	want := t.sums(b.Size())
	for i := 0; i < len(want); i += 4 {
		rig.PutWord(want[i:], rig.Word(want[i:])+7)
	}
	t.all("sum and 7", b, want)
	t.Release(tr)
}

func meshLate(t *T) {
	b := t.Linked()
	x, err := t.Links.AllReduce(t.Ctx, b, mesh.SumInt32)
	t.OK(err)
	work := t.Pages("work")
	n := uint32(t.Size(40, 5))
	for k, late := range []*mesh.Chip{t.Mesh.Chips()[0], t.Mesh.Chips()[t.Mesh.Size()-1]} {
		part := t.adder(work, work, Add(1))
		part.Range = mesh.Range{Start: late.Coord, End: late.Coord}
		slow := t.Loaded(part)
		t.Write(work, make([]byte, work.Size()))
		for i, c := range t.Links.Line() {
			t.Put(c, b, 1000*uint32(i+1))
		}
		for range n {
			t.Start(slow)
		}
		t.carryOut(x, nil)
		t.all("sum", b, t.sums(b.Size()))
		got := make([]byte, 4)
		t.OK(t.Queue.On(late).Read(t.Ctx, work.On(late), 0, got))
		if v := rig.Word(got); v != n {
			t.Errorf("round %d: the late chip did its work %d times, want %d", k, v, n)
		}
	}
}

func otherCore(t *T) {
	for _, core := range []chip.Core{{}, {X: 5, Y: 3}} {
		var err error
		t.Links, err = t.Mesh.NewLinks(t.Ctx, core)
		t.OK(err)
		b := t.ofPages(3, 64)
		x, err := t.Links.AllReduce(t.Ctx, b, mesh.SumInt32)
		t.carryOut(x, err)
		t.all("sum", b, t.sums(b.Size()))
		t.Release(x)
		t.Release(t.Links)
	}
}

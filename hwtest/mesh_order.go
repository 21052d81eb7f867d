package hwtest

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/mesh"
)

func meshOrderCases() []testCase {
	return []testCase{
		{name: "float32 maximum", protects: "the maximum of float32 is right: -0 is less than 0, and a NaN gives the quiet one", fn: onMesh(meshFloatMax)},
		{name: "bfloat16 maximum", protects: "the largest bfloat16 comes out of each half of a word", fn: onMesh(meshBFloatMax)},
		{name: "int32 wraps", protects: "sums of int32 wrap around", fn: onMesh(meshWraps)},
		{name: "many pages", protects: "a buffer of more pages than links have room for is added up", fn: onMesh(meshManyPages)},
		{name: "rows at once", protects: "submeshes that are apart carry out collectives at the same time", fn: onMesh(meshRows)},
		{name: "same bits again", protects: "a sum of floats has the same bits every time, on every chip", fn: onMesh(meshSameBits)},
		{name: "collectives replayed", protects: "collectives in a trace begin anew at each replay", fn: onMesh(meshReplayed)},
		{name: "work between collectives", protects: "a program between a reduce_scatter and an all_gather works on the slice of its chip", fn: onMesh(meshBetween)},
		{name: "late chip", protects: "chips that are ready wait for a late one, and the result is the same", fn: onMesh(meshLate)},
		{name: "links of another core", protects: "any worker can drive the links", fn: onMesh(meshOtherCore)},
	}
}

func meshFloatMax(t *meshFixture) {
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

func meshBFloatMax(t *meshFixture) {
	high := func(f float32) uint32 { return math.Float32bits(f) &^ 0xFFFF }
	largest := func(a, b uint32) uint32 { return high(max(math.Float32frombits(a), math.Float32frombits(b))) }
	t.floats(mesh.MaxBFloat16, func(c, w int) uint32 { return high(anyFloat(c, 2*w))>>16 | high(anyFloat(c, 2*w+1)) },
		func(a, b uint32) uint32 {
			return largest(a<<16, b<<16)>>16 | largest(a&^0xFFFF, b&^0xFFFF)
		})
}

func meshWraps(t *meshFixture) {
	t.floats(mesh.SumInt32, func(c, w int) uint32 { return math.MaxInt32 - uint32(c*w) }, func(a, b uint32) uint32 { return a + b })
}

func meshManyPages(t *meshFixture) {
	t.linked()
	b := t.ofPages(t.size(24, 8)+1, 512)
	x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.carryOut(x, err)
	for _, c := range t.links.Line() {
		t.is("sum", c, b, t.sums(b.Size()))
	}
}

func meshRows(t *meshFixture) {
	s := t.mesh.Shape()
	along := mesh.Shape{1, s[1]}
	if s[1] == 1 {
		along = mesh.Shape{s[0], 1}
	}
	rows, err := t.mesh.Submeshes(along)
	t.ok(err)
	type row struct {
		*meshFixture
		b *mesh.Buffer
		x *mesh.Executable
	}
	var all []row
	for _, m := range rows {
		r := row{meshFixture: &meshFixture{fixture: t.fixture, machine: t.machine, mesh: m, queue: m.Queue(0)}}
		r.b = r.linked()
		r.x, err = r.links.AllReduce(t.ctx, r.b, mesh.SumInt32)
		t.ok(err)
		all = append(all, r)
	}
	for _, r := range all {
		t.ok(r.queue.Run(t.ctx, r.x))
	}
	for _, r := range all {
		t.ok(r.queue.Wait(t.ctx))
		for _, c := range r.links.Line() {
			r.is("sum of a row", c, r.b, r.sums(r.b.Size()))
		}
	}
}

func meshSameBits(t *meshFixture) {
	t.linked()
	b := t.ofPages(t.mesh.Size(), 64) // so that a ring is used where there is one
	x, err := t.links.AllReduce(t.ctx, b, mesh.SumFloat32)
	t.ok(err)
	var first []byte
	for range 3 {
		for i, c := range t.links.Line() {
			var p []byte
			for w := range b.Size() / 4 {
				p = binary.LittleEndian.AppendUint32(p, math.Float32bits(anyFloat(i, w)))
			}
			t.ok(t.queue.On(c).Write(t.ctx, b.On(c), 0, p))
		}
		t.carryOut(x, nil)
		for _, c := range t.links.Line() {
			got := make([]byte, b.Size())
			t.ok(t.queue.On(c).Read(t.ctx, b.On(c), 0, got))
			if first == nil {
				first = got
			} else if !bytes.Equal(first, got) {
				t.Errorf("chip %v has other bits: %s", c.Coord, difference(first, got))
			}
		}
	}
}

func meshReplayed(t *meshFixture) {
	b := t.linked()
	largest, err := t.links.AllReduce(t.ctx, b, mesh.MaxInt32)
	t.ok(err)
	sum, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	tr := t.recorded(largest, t.links.Barrier(), sum)
	chips := uint32(t.mesh.Size())
	for round := range uint32(4) {
		for i, c := range t.links.Line() {
			t.put(c, b, 10*round+uint32(i))
		}
		t.ok(tr.Replay(t.ctx))
		var want []byte
		for i := range uint32(b.Size() / 4) {
			want = binary.LittleEndian.AppendUint32(want, chips*(10*round+chips-1+i))
		}
		for _, c := range t.links.Line() {
			t.is("sum of maxima", c, b, want)
		}
	}
	t.ok(tr.Release(t.ctx))
}

func meshBetween(t *meshFixture) {
	b := t.linked()
	scatter, err := t.links.ReduceScatter(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	gather, err := t.links.AllGather(t.ctx, b)
	t.ok(err)
	tr := t.recorded(scatter, t.loaded(t.adder(b, b, add(7))), gather)
	t.ok(tr.Replay(t.ctx))
	t.ok(t.queue.Wait(t.ctx))
	want := t.sums(b.Size())
	for i := 0; i < len(want); i += 4 {
		binary.LittleEndian.PutUint32(want[i:], binary.LittleEndian.Uint32(want[i:])+7)
	}
	for _, c := range t.links.Line() {
		t.is("sum and 7", c, b, want)
	}
	t.ok(tr.Release(t.ctx))
}

func meshLate(t *meshFixture) {
	b := t.linked()
	x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	work := t.pages("work")
	n := uint32(t.size(40, 5))
	for k, late := range []*mesh.Chip{t.mesh.Chips()[0], t.mesh.Chips()[t.mesh.Size()-1]} {
		part := t.adder(work, work, add(1))
		part.Range = mesh.Range{Start: late.Coord, End: late.Coord}
		slow := t.loaded(part)
		t.ok(t.queue.Write(t.ctx, work, make([]byte, work.Size())))
		for i, c := range t.links.Line() {
			t.put(c, b, 1000*uint32(i+1))
		}
		for range n {
			t.ok(t.queue.Run(t.ctx, slow))
		}
		t.carryOut(x, nil)
		for _, c := range t.links.Line() {
			t.is("sum", c, b, t.sums(b.Size()))
		}
		got := make([]byte, 4)
		t.ok(t.queue.On(late).Read(t.ctx, work.On(late), 0, got))
		if v := binary.LittleEndian.Uint32(got); v != n {
			t.Errorf("round %d: the late chip did its work %d times, want %d", k, v, n)
		}
	}
}

func meshOtherCore(t *meshFixture) {
	for _, core := range []chip.Core{{}, {X: 5, Y: 3}} {
		var err error
		t.links, err = t.mesh.NewLinks(t.ctx, core)
		t.ok(err)
		b := t.ofPages(3, 64)
		x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
		t.carryOut(x, err)
		for _, c := range t.links.Line() {
			t.is("sum", c, b, t.sums(b.Size()))
		}
		t.ok(x.Release(t.ctx))
		t.ok(t.links.Release(t.ctx))
	}
}

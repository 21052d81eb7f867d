package hwtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/mesh"
)

func meshCollectiveCases() []testCase {
	return []testCase{
		{name: "barrier", protects: "a barrier ends on every chip, again and again", fn: onMesh(meshBarrier)},
		{name: "broadcast", protects: "a broadcast from each chip reaches all others", fn: onMesh(meshBroadcast)},
		{name: "point to point", protects: "a chip's buffer reaches another chip and none in between", fn: onMesh(meshSend)},
		{name: "all pairs", protects: "a buffer reaches each chip from each other one", fn: onMesh(meshAllPairs)},
		{name: "all_gather", protects: "after an all_gather every chip has every slice", fn: onMesh(meshAllGather)},
		{name: "reduce_scatter", protects: "after a reduce_scatter each chip has its slice's sum", fn: onMesh(meshReduceScatter)},
		{name: "all_reduce", protects: "after an all_reduce every chip has the sum", fn: onMesh(meshAllReduce)},
		{name: "all_reduce maximum", protects: "after an all_reduce of maxima every chip has the largest of each", fn: onMesh(meshAllReduceMax)},
		{name: "pages of every size", protects: "collectives carry pages from 4 B to 4 KiB, whatever their alignment", fn: onMesh(meshPageSizes)},
		{name: "uneven slices", protects: "slices of unequal size are gathered and scattered too", fn: onMesh(meshUneven)},
		{name: "collectives in a row", protects: "collectives that follow one another in a queue keep their numbers", fn: onMesh(meshRow)},
		{name: "scatter and gather", protects: "a reduce_scatter and an all_gather after it are an all_reduce", fn: onMesh(meshScatterGather)},
		{name: "float32 sum", protects: "sums of float32 have the bits that IEEE 754 gives in the documented order", fn: onMesh(meshFloatSum)},
		{name: "bfloat16 sum", protects: "sums of bfloat16 are rounded to nearest, ties to even, at each step", fn: onMesh(meshBFloatSum)},
		{name: "layer with all_reduce", protects: "partial results and their sum over the chips replay as one trace", fn: onMesh(meshLayer)},
		{name: "links prepared anew", protects: "links that are prepared again start from nothing", fn: onMesh(meshAnew)},
	}
}

// linked prepares the links, and a buffer that has other data on every chip.
func (t *meshFixture) linked() *mesh.Buffer {
	t.Helper()
	var err error
	t.links, err = t.mesh.NewLinks(t.ctx, chip.Core{X: 2, Y: 2})
	t.ok(err)
	l := t.links
	t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.ctx)) }) // it may be closed, or what it is on
	b := t.pages("data")
	for i, c := range t.links.Line() {
		t.put(c, b, 1000*uint32(i+1))
	}
	return b
}

func (t *meshFixture) carryOut(x *mesh.Executable, err error) {
	t.Helper()
	t.ok(err)
	t.later(x.Release)
	t.ok(t.queue.Run(t.ctx, x))
	t.ok(t.queue.Wait(t.ctx))
}

// sums is what all chips' data add up to.
func (t *meshFixture) sums(n int) []byte {
	var p []byte
	chips := uint32(t.mesh.Size())
	for i := range uint32(n / 4) {
		p = binary.LittleEndian.AppendUint32(p, 1000*chips*(chips+1)/2+chips*i)
	}
	return p
}

// ofPages is a buffer of pages of some size that has words of its own on every chip of the line.
func (t *meshFixture) ofPages(n, page int) *mesh.Buffer {
	t.Helper()
	b, err := t.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: n * page, PageSize: page,
		Name: "pages"}})
	t.ok(err)
	t.later(func(context.Context) error { return b.Release() })
	for i, c := range t.links.Line() {
		t.put(c, b, 1000*uint32(i+1))
	}
	return b
}

func meshBarrier(t *meshFixture) {
	t.linked()
	for range 5 {
		t.ok(t.queue.Run(t.ctx, t.links.Barrier()))
	}
	t.ok(t.queue.Wait(t.ctx))
}

func meshBroadcast(t *meshFixture) {
	b := t.linked()
	for i, root := range t.links.Line() {
		t.put(root, b, uint32(7000+i))
		x, err := t.links.Broadcast(t.ctx, b, root)
		t.carryOut(x, err)
		for _, c := range t.links.Line() {
			t.is("broadcast", c, b, counting(b.Size(), uint32(7000+i)))
		}
	}
}

func meshSend(t *meshFixture) {
	b := t.linked()
	line := t.links.Line()
	x, err := t.links.Send(t.ctx, b, line[0], line[len(line)-1])
	t.carryOut(x, err)
	for i, c := range line {
		want := counting(b.Size(), 1000*uint32(i+1))
		if i == len(line)-1 {
			want = counting(b.Size(), 1000)
		}
		t.is("send", c, b, want)
	}
}

func meshAllPairs(t *meshFixture) {
	b := t.linked()
	line := t.links.Line()
	for i, from := range line {
		for j, to := range line {
			if i == j || len(line) > 8 && (i+j)%len(line) != len(line)/3 { // one from each of many
				continue
			}
			for k, c := range line {
				t.put(c, b, uint32(1000*k))
			}
			x, err := t.links.Send(t.ctx, b, from, to)
			t.carryOut(x, err)
			t.ok(x.Release(t.ctx))
			for k, c := range line {
				want := k
				if k == j {
					want = i
				}
				t.is("send", c, b, counting(b.Size(), uint32(1000*want)))
			}
		}
	}
}

func meshAllGather(t *meshFixture) {
	b := t.linked()
	x, err := t.links.AllGather(t.ctx, b)
	t.carryOut(x, err)
	want := make([]byte, b.Size())
	for i, owner := range t.links.Line() {
		first, count := t.links.Slice(b, owner)
		copy(want[64*first:64*(first+count)], counting(b.Size(), 1000*uint32(i+1))[64*first:])
	}
	for _, c := range t.links.Line() {
		t.is("all_gather", c, b, want)
	}
}

// hasSlice checks a chip's slice of a buffer, in pages of 64 B, against the bytes of the whole.
func (t *meshFixture) hasSlice(what string, c *mesh.Chip, b *mesh.Buffer, want []byte) {
	t.Helper()
	first, count := t.links.Slice(b, c)
	got := make([]byte, 64*count)
	t.ok(t.queue.On(c).Read(t.ctx, b.On(c), 64*first, got))
	if !bytes.Equal(got, want[64*first:64*(first+count)]) {
		t.Errorf("%s: chip %v has another slice: % x", what, c.Coord, got)
	}
}

func meshReduceScatter(t *meshFixture) {
	b := t.linked()
	x, err := t.links.ReduceScatter(t.ctx, b, mesh.SumInt32)
	t.carryOut(x, err)
	want := t.sums(b.Size())
	for _, c := range t.links.Line() {
		t.hasSlice("reduce_scatter", c, b, want)
	}
}

func meshAllReduce(t *meshFixture) {
	b := t.linked()
	x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.carryOut(x, err)
	for _, c := range t.links.Line() {
		t.is("all_reduce", c, b, t.sums(b.Size()))
	}
}

func meshAllReduceMax(t *meshFixture) {
	b := t.linked()
	x, err := t.links.AllReduce(t.ctx, b, mesh.MaxInt32)
	t.carryOut(x, err)
	for _, c := range t.links.Line() {
		t.is("maximum", c, b, counting(b.Size(), 1000*uint32(t.mesh.Size())))
	}
}

func meshPageSizes(t *meshFixture) {
	t.linked()
	for _, page := range []int{4, 12, 16, 100, 1024, 4096} {
		b := t.ofPages(2, page)
		x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
		t.carryOut(x, err)
		want := t.sums(b.Size())
		for _, c := range t.links.Line() {
			got := make([]byte, b.Size())
			t.ok(t.queue.On(c).Read(t.ctx, b.On(c), 0, got))
			if !bytes.Equal(got, want) {
				t.Errorf("pages of %d B: chip %v has another sum", page, c.Coord)
			}
		}
	}
}

func meshUneven(t *meshFixture) {
	t.linked()
	for _, pages := range []int{1, 3, 2*t.mesh.Size() + 1} {
		b := t.ofPages(pages, 64)
		x, err := t.links.ReduceScatter(t.ctx, b, mesh.SumInt32)
		t.carryOut(x, err)
		want := t.sums(b.Size())
		for _, c := range t.links.Line() {
			t.hasSlice(fmt.Sprintf("%d pages", pages), c, b, want)
		}
	}
}

func meshRow(t *meshFixture) {
	b := t.linked()
	x, err := t.links.AllReduce(t.ctx, b, mesh.MaxInt32)
	t.ok(err)
	for range 5 {
		t.ok(t.queue.Run(t.ctx, x))
		t.ok(t.queue.Run(t.ctx, t.links.Barrier()))
	}
	t.ok(t.queue.Wait(t.ctx))
	for _, c := range t.links.Line() {
		t.is("maximum", c, b, counting(b.Size(), 1000*uint32(t.mesh.Size())))
	}
}

func meshScatterGather(t *meshFixture) {
	b := t.linked()
	scatter, err := t.links.ReduceScatter(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	gather, err := t.links.AllGather(t.ctx, b)
	t.ok(err)
	tr := t.recorded(scatter, gather)
	t.ok(tr.Replay(t.ctx))
	t.ok(t.queue.Wait(t.ctx))
	for _, c := range t.links.Line() {
		t.is("sum", c, b, t.sums(b.Size()))
	}
}

// floats checks an all_reduce of words that value gives to each chip, in pages whose number no count of chips divides, so
// that the order is that of the line.
func (t *meshFixture) floats(how mesh.Combine, value func(chip, word int) uint32, sum func(a, b uint32) uint32) {
	t.Helper()
	t.linked()
	b := t.ofPages(1, 256)
	line := t.links.Line()
	var want []byte
	for w := range b.Size() / 4 {
		v := value(0, w)
		for i := 1; i < len(line); i++ {
			v = sum(v, value(i, w))
		}
		want = binary.LittleEndian.AppendUint32(want, v)
	}
	for i, c := range line {
		var p []byte
		for w := range b.Size() / 4 {
			p = binary.LittleEndian.AppendUint32(p, value(i, w))
		}
		t.ok(t.queue.On(c).Write(t.ctx, b.On(c), 0, p))
	}
	x, err := t.links.AllReduce(t.ctx, b, how)
	t.carryOut(x, err)
	for _, c := range line {
		t.is("sum", c, b, want)
	}
}

// anyFloat is a float32 of any size and sign.
func anyFloat(chip, word int) float32 {
	x := float64((word*2654435761+chip*40503)%10007) - 5000
	return float32(x * math.Pow(2, float64((word+3*chip)%40-20)))
}

func meshFloatSum(t *meshFixture) {
	t.floats(mesh.SumFloat32, func(c, w int) uint32 { return math.Float32bits(anyFloat(c, w)) }, func(a, b uint32) uint32 {
		return math.Float32bits(math.Float32frombits(a) + math.Float32frombits(b))
	})
}

func meshBFloatSum(t *meshFixture) {
	narrow := func(f float32) uint32 {
		v := math.Float32bits(f)
		return (v + 0x7FFF + v>>16&1) >> 16
	}
	half := func(a, b uint32) uint32 { return narrow(math.Float32frombits(a) + math.Float32frombits(b)) }
	t.floats(mesh.SumBFloat16, func(c, w int) uint32 { return narrow(anyFloat(c, 2*w)) | narrow(anyFloat(c, 2*w+1))<<16 },
		func(a, b uint32) uint32 {
			return half(a<<16, b<<16) | half(a&0xFFFF0000, b&0xFFFF0000)<<16
		})
}

func meshLayer(t *meshFixture) {
	b := t.linked()
	in := t.pages("in")
	partial := t.loaded(t.adder(in, b, func(c *mesh.Chip) uint32 { return t.ordinal(c) }))
	sum, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	tr := t.recorded(partial, sum)
	chips := uint32(t.mesh.Size())
	for round := range uint32(3) {
		t.ok(t.queue.Write(t.ctx, in, counting(in.Size(), round)))
		t.ok(tr.Replay(t.ctx))
		var want []byte
		for i := range uint32(b.Size() / 4) {
			want = binary.LittleEndian.AppendUint32(want, chips*(round+i)+chips*(chips-1)/2)
		}
		for _, c := range t.mesh.Chips() {
			t.is("layer", c, b, want)
		}
	}
}

func meshAnew(t *meshFixture) {
	for range 3 {
		b := t.linked()
		x, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
		t.carryOut(x, err)
		for _, c := range t.links.Line() {
			t.is("sum", c, b, t.sums(b.Size()))
		}
		t.ok(t.links.Release(t.ctx))
	}
}

package machines

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/mesh"
)

func collectiveCases() rig.Table {
	var cs rig.Table
	cs.Add("barrier", "a barrier ends on every chip, again and again", OnMesh(meshBarrier))
	cs.Add("broadcast", "a broadcast from each chip reaches all others", OnMesh(meshBroadcast))
	cs.Add("point to point", "a chip's buffer reaches another chip and none in between", OnMesh(meshSend))
	cs.Add("all pairs", "a buffer reaches each chip from each other one", OnMesh(allPairs))
	cs.Add("all_gather", "after an all_gather every chip has every slice", OnMesh(allGather))
	cs.Add("reduce_scatter", "after a reduce_scatter each chip has its slice's sum", OnMesh(reduceScatter))
	cs.Add("all_reduce", "after an all_reduce every chip has the sum", OnMesh(allReduce))
	cs.Add("all_reduce maximum", "after an all_reduce of maxima every chip has the largest of each", OnMesh(allReduceMax))
	cs.Add("pages of every size", "collectives carry pages from 4 B to 4 KiB, whatever their alignment", OnMesh(pageSizes))
	cs.Add("uneven slices", "slices of unequal size are gathered and scattered too", OnMesh(meshUneven))
	cs.Add("collectives in a row", "collectives that follow one another in a queue keep their numbers", OnMesh(meshRow))
	cs.Add("scatter and gather", "a reduce_scatter and an all_gather after it are an all_reduce", OnMesh(scatterGather))
	cs.Add("float32 sum", "sums of float32 have the bits that IEEE 754 gives in the documented order", OnMesh(floatSum))
	cs.Add("bfloat16 sum", "sums of bfloat16 are rounded to nearest, ties to even, at each step", OnMesh(bFloatSum))
	cs.Add("layer with all_reduce", "partial results and their sum over the chips replay as one trace", OnMesh(meshLayer))
	cs.Add("links prepared anew", "links that are prepared again start from nothing", OnMesh(meshAnew))
	return cs
}

// Linked prepares the links, and a buffer that has other data on every chip.
func (t *T) Linked() *mesh.Buffer {
	t.Helper()
	var err error
	t.Links, err = t.Mesh.NewLinks(t.Ctx, chip.Core{X: 2, Y: 2})
	t.OK(err)
	l := t.Links
	t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.Ctx)) }) // it may be closed, or what it is on
	b := t.Pages("data")
	for i, c := range t.Links.Line() {
		t.Put(c, b, 1000*uint32(i+1))
	}
	return b
}

func (t *T) carryOut(x *mesh.Executable, err error) {
	t.Helper()
	t.OK(err)
	t.Later(x.Release)
	t.Start(x)
	t.Wait()
}

// sums is what all chips' data add up to.
func (t *T) sums(n int) []byte {
	var p []byte
	chips := uint32(t.Mesh.Size())
	for i := range uint32(n / 4) {
		p = rig.AppendWord(p, 1000*chips*(chips+1)/2+chips*i)
	}
	return p
}

// ofPages is a buffer of pages of some size that has words of its own on every chip of the line.
func (t *T) ofPages(n, page int) *mesh.Buffer {
	t.Helper()
	b, err := t.Mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: n * page, PageSize: page,
		Name: "pages"}})
	t.OK(err)
	t.Later(func(context.Context) error { return b.Release() })
	for i, c := range t.Links.Line() {
		t.Put(c, b, 1000*uint32(i+1))
	}
	return b
}

func meshBarrier(t *T) {
	t.Linked()
	for range 5 {
		t.Start(t.Links.Barrier())
	}
	t.Wait()
}

func meshBroadcast(t *T) {
	b := t.Linked()
	for i, root := range t.Links.Line() {
		t.Put(root, b, uint32(7000+i))
		t.carryOut(t.Links.Broadcast(t.Ctx, b, root))
		t.all("broadcast", b, Counting(b.Size(), uint32(7000+i)))
	}
}

func meshSend(t *T) {
	b := t.Linked()
	line := t.Links.Line()
	t.carryOut(t.Links.Send(t.Ctx, b, line[0], line[len(line)-1]))
	for i, c := range line {
		want := Counting(b.Size(), 1000*uint32(i+1))
		if i == len(line)-1 {
			want = Counting(b.Size(), 1000)
		}
		t.Is("send", c, b, want)
	}
}

func allPairs(t *T) {
	b := t.Linked()
	line := t.Links.Line()
	for i, from := range line {
		for j, to := range line {
			if i == j || len(line) > 8 && (i+j)%len(line) != len(line)/3 { // one from each of many
				continue
			}
			for k, c := range line {
				t.Put(c, b, uint32(1000*k))
			}
			x, err := t.Links.Send(t.Ctx, b, from, to)
			t.carryOut(x, err)
			t.Release(x)
			for k, c := range line {
				want := k
				if k == j {
					want = i
				}
				t.Is("send", c, b, Counting(b.Size(), uint32(1000*want)))
			}
		}
	}
}

func allGather(t *T) {
	b := t.Linked()
	t.carryOut(t.Links.AllGather(t.Ctx, b))
	want := make([]byte, b.Size())
	for i, owner := range t.Links.Line() {
		first, count := t.Links.Slice(b, owner)
		copy(want[64*first:64*(first+count)], Counting(b.Size(), 1000*uint32(i+1))[64*first:])
	}
	t.all("all_gather", b, want)
}

// hasSlice checks a chip's slice of a buffer, in pages of 64 B, against the bytes of the whole.
func (t *T) hasSlice(what string, c *mesh.Chip, b *mesh.Buffer, want []byte) {
	t.Helper()
	first, count := t.Links.Slice(b, c)
	got := make([]byte, 64*count)
	t.OK(t.Queue.On(c).Read(t.Ctx, b.On(c), 64*first, got))
	if !bytes.Equal(got, want[64*first:64*(first+count)]) {
		t.Errorf("%s: chip %v has another slice: % x", what, c.Coord, got)
	}
}

func reduceScatter(t *T) {
	b := t.Linked()
	t.carryOut(t.Links.ReduceScatter(t.Ctx, b, mesh.SumInt32))
	want := t.sums(b.Size())
	for _, c := range t.Links.Line() {
		t.hasSlice("reduce_scatter", c, b, want)
	}
}

func allReduce(t *T) {
	b := t.Linked()
	t.carryOut(t.Links.AllReduce(t.Ctx, b, mesh.SumInt32))
	t.all("all_reduce", b, t.sums(b.Size()))
}

func allReduceMax(t *T) {
	b := t.Linked()
	t.carryOut(t.Links.AllReduce(t.Ctx, b, mesh.MaxInt32))
	t.all("maximum", b, Counting(b.Size(), 1000*uint32(t.Mesh.Size())))
}

func pageSizes(t *T) {
	t.Linked()
	for _, page := range []int{4, 12, 16, 100, 1024, 4096} {
		b := t.ofPages(2, page)
		t.carryOut(t.Links.AllReduce(t.Ctx, b, mesh.SumInt32))
		want := t.sums(b.Size())
		for _, c := range t.Links.Line() {
			got := make([]byte, b.Size())
			t.OK(t.Queue.On(c).Read(t.Ctx, b.On(c), 0, got))
			if !bytes.Equal(got, want) {
				t.Errorf("pages of %d B: chip %v has another sum", page, c.Coord)
			}
		}
	}
}

func meshUneven(t *T) {
	t.Linked()
	for _, pages := range []int{1, 3, 2*t.Mesh.Size() + 1} {
		b := t.ofPages(pages, 64)
		t.carryOut(t.Links.ReduceScatter(t.Ctx, b, mesh.SumInt32))
		want := t.sums(b.Size())
		for _, c := range t.Links.Line() {
			t.hasSlice(fmt.Sprintf("%d pages", pages), c, b, want)
		}
	}
}

func meshRow(t *T) {
	b := t.Linked()
	x, err := t.Links.AllReduce(t.Ctx, b, mesh.MaxInt32)
	t.OK(err)
	for range 5 {
		t.Start(x)
		t.Start(t.Links.Barrier())
	}
	t.Wait()
	t.all("maximum", b, Counting(b.Size(), 1000*uint32(t.Mesh.Size())))
}

func scatterGather(t *T) {
	b := t.Linked()
	scatter, err := t.Links.ReduceScatter(t.Ctx, b, mesh.SumInt32)
	t.OK(err)
	gather, err := t.Links.AllGather(t.Ctx, b)
	t.OK(err)
	tr := t.recorded(scatter, gather)
	t.Replay(tr)
	t.Wait()
	t.all("sum", b, t.sums(b.Size()))
}

// floats checks an all_reduce of words that value gives to each chip, in pages whose number no
// count of chips divides, so that the order is that of the line.
func (t *T) floats(how mesh.Combine, value func(chip, word int) uint32, sum func(a, b uint32) uint32) {
	t.Helper()
	t.Linked()
	b := t.ofPages(1, 256)
	line := t.Links.Line()
	var want []byte
	for w := range b.Size() / 4 {
		v := value(0, w)
		for i := 1; i < len(line); i++ {
			v = sum(v, value(i, w))
		}
		want = rig.AppendWord(want, v)
	}
	for i, c := range line {
		var p []byte
		for w := range b.Size() / 4 {
			p = rig.AppendWord(p, value(i, w))
		}
		t.OK(t.Queue.On(c).Write(t.Ctx, b.On(c), 0, p))
	}
	t.carryOut(t.Links.AllReduce(t.Ctx, b, how))
	t.all("sum", b, want)
}

// anyFloat is a float32 of any size and sign.
func anyFloat(chip, word int) float32 {
	x := float64((word*2654435761+chip*40503)%10007) - 5000
	return float32(x * math.Pow(2, float64((word+3*chip)%40-20)))
}

func floatSum(t *T) {
	t.floats(mesh.SumFloat32, func(c, w int) uint32 { return math.Float32bits(anyFloat(c, w)) }, func(a, b uint32) uint32 {
		return math.Float32bits(math.Float32frombits(a) + math.Float32frombits(b))
	})
}

func bFloatSum(t *T) {
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

func meshLayer(t *T) {
	b := t.Linked()
	in := t.Pages("in")
	partial := t.Loaded(t.adder(in, b, func(c *mesh.Chip) uint32 { return t.Ordinal(c) }))
	sum, err := t.Links.AllReduce(t.Ctx, b, mesh.SumInt32)
	t.OK(err)
	tr := t.recorded(partial, sum)
	chips := uint32(t.Mesh.Size())
	for round := range uint32(3) {
		t.Write(in, Counting(in.Size(), round))
		t.Replay(tr)
		var want []byte
		for i := range uint32(b.Size() / 4) {
			want = rig.AppendWord(want, chips*(round+i)+chips*(chips-1)/2)
		}
		for _, c := range t.Mesh.Chips() {
			t.Is("layer", c, b, want)
		}
	}
}

func meshAnew(t *T) {
	for range 3 {
		b := t.Linked()
		t.carryOut(t.Links.AllReduce(t.Ctx, b, mesh.SumInt32))
		t.all("sum", b, t.sums(b.Size()))
		t.Release(t.Links)
	}
}

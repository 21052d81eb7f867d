package hwtest

import (
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
)

// transferCases move ranges that are no whole pages, on every layout.
func transferCases() []testCase {
	var cs []testCase
	for _, page := range []int{16, 32, 100, 2048, 5000} {
		for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("bytes of pages of %d in %v", page, k),
				protects: "any range of bytes is read and written, and nothing beside it",
				fn:       func(t *fixture) { t.byteRanges(reprise.BufferConfig{Kind: k, Size: 7 * page, PageSize: page}) },
			})
		}
	}
	grid := []chip.Range{chip.Grid(3, 2)}
	for _, s := range []allocator.ShardSpec{
		{Layout: allocator.HeightSharded, Tensor: []int{12, 1}, Shard: []int{2, 1}, Cores: grid},
		{Layout: allocator.WidthSharded, Tensor: []int{2, 12}, Shard: []int{2, 2}, Cores: grid},
		{Layout: allocator.BlockSharded, Tensor: []int{4, 6}, Shard: []int{2, 2}, Cores: grid},
	} {
		for _, page := range []int{48, 272} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("bytes of %v pages of %d", s.Layout, page),
				protects: "any range of bytes of a sharded buffer is read and written, and nothing beside it",
				fn:       func(t *fixture) { t.byteRanges(reprise.BufferConfig{Kind: allocator.L1, PageSize: page, Sharding: &s}) },
			})
		}
	}
	return append(cs, []testCase{
		{name: "started reads of bytes", protects: "started reads of parts complete in order", fn: startedBytes},
		{name: "bytes of a part of a buffer", protects: "a part of a buffer has its own offsets", fn: bytesOfPart},
	}...)
}

func (t *fixture) byteRanges(c reprise.BufferConfig) {
	c.Name = "bytes"
	b, err := t.dev.NewBuffer(c)
	t.ok(err)
	t.Cleanup(func() { t.ok(b.Release()) })
	want := pattern(1, b.Size())
	t.ok(t.rq.Write(t.ctx, b, 0, want))
	page, n := b.PageSize(), b.Size()
	ranges := [][2]int{{1, 1}, {page - 1, 2}, {0, page + 1}, {page / 2, 3 * page}, {n - 1, 1}, {3, n - 5}, {page + 5, page - 5}}
	for i, r := range ranges[:t.size(len(ranges), 5)] {
		part := pattern(uint32(10+i), r[1])
		t.ok(t.rq.Write(t.ctx, b, r[0], part))
		copy(want[r[0]:], part)
		got := make([]byte, r[1])
		t.ok(t.rq.Read(t.ctx, b, r[0], got))
		t.same(fmt.Sprintf("%d B from %d on", r[1], r[0]), part, got)
	}
	t.same("all of it", want, t.readAll(b))
}

func startedBytes(t *fixture) {
	b := t.buffer(allocator.DRAM, 50*100, 100)
	want := pattern(3, b.Size())
	t.ok(t.rq.Write(t.ctx, b, 0, want))
	var reads []*reprise.Pending
	var got [][]byte
	at := func(i int) (off, n int) { return 37 * i, 1 + 61*i%700 }
	for i := range t.size(40, 12) {
		off, n := at(i)
		dst := make([]byte, n)
		p, err := t.rq.StartRead(t.ctx, b, off, dst)
		t.ok(err)
		reads, got = append(reads, p), append(got, dst)
	}
	for i, p := range reads {
		t.ok(p.Wait(t.ctx))
		off, n := at(i)
		t.same(fmt.Sprintf("%d B from %d on", n, off), want[off:off+n], got[i])
	}
}

func bytesOfPart(t *fixture) {
	b := t.buffer(allocator.DRAM, 20*64, 64)
	want := pattern(4, b.Size())
	t.ok(t.rq.Write(t.ctx, b, 0, want))
	part, err := b.Sub(5*64, 6*64)
	t.ok(err)
	t.Cleanup(func() { t.ok(part.Release()) })
	t.ok(t.rq.Write(t.ctx, part, 70, pattern(5, 100)))
	copy(want[5*64+70:], pattern(5, 100))
	got := make([]byte, 150)
	t.ok(t.rq.Read(t.ctx, part, 33, got))
	t.same("inside of the part", want[5*64+33:5*64+33+150], got)
	t.same("the whole", want, t.readAll(b))
}

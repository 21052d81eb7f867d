package memory

import (
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// transferCases move ranges that are no whole pages, on every layout.
func transferCases() rig.Table {
	var cs rig.Table
	for _, page := range []int{16, 32, 100, 2048, 5000} {
		for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
			cs.Add(fmt.Sprintf("bytes of pages of %d in %v", page, k), "any range of bytes is read and written, and nothing beside it",
				func(t *rig.T) { byteRanges(t, reprise.BufferConfig{Kind: k, Size: 7 * page, PageSize: page}) })
		}
	}
	grid := []chip.Range{chip.Grid(3, 2)}
	for _, s := range []allocator.ShardSpec{
		{Layout: allocator.HeightSharded, Tensor: []int{12, 1}, Shard: []int{2, 1}, Cores: grid},
		{Layout: allocator.WidthSharded, Tensor: []int{2, 12}, Shard: []int{2, 2}, Cores: grid},
		{Layout: allocator.BlockSharded, Tensor: []int{4, 6}, Shard: []int{2, 2}, Cores: grid},
	} {
		for _, page := range []int{48, 272} {
			cs.Add(fmt.Sprintf("bytes of %v pages of %d", s.Layout, page), "any range of bytes of a sharded buffer is read and written, and nothing beside it",
				func(t *rig.T) { byteRanges(t, reprise.BufferConfig{Kind: allocator.L1, PageSize: page, Sharding: &s}) })
		}
	}
	cs.Add("started reads of bytes", "started reads of parts complete in order", startedBytes)
	cs.Add("bytes of a part of a buffer", "a part of a buffer has its own offsets", bytesOfPart)
	return cs
}

func byteRanges(t *rig.T, c reprise.BufferConfig) {
	c.Name = "bytes"
	b, err := t.Dev.NewBuffer(c)
	t.OK(err)
	t.Cleanup(func() { t.Free(b) })
	want := t.Fill(b, 1)
	page, n := b.PageSize(), b.Size()
	ranges := [][2]int{{1, 1}, {page - 1, 2}, {0, page + 1}, {page / 2, 3 * page}, {n - 1, 1}, {3, n - 5}, {page + 5, page - 5}}
	for i, r := range ranges[:t.Size(len(ranges), 5)] {
		part := rig.Pattern(uint32(10+i), r[1])
		t.WriteAt(b, r[0], part)
		copy(want[r[0]:], part)
		got := make([]byte, r[1])
		t.OK(t.Queue.Read(t.Ctx, b, r[0], got))
		t.Same(fmt.Sprintf("%d B from %d on", r[1], r[0]), part, got)
	}
	t.Holds("all of it", b, want)
}

func startedBytes(t *rig.T) {
	b := t.Buffer(allocator.DRAM, 50*100, 100)
	want := t.Fill(b, 3)
	var reads []*reprise.Pending
	var got [][]byte
	at := func(i int) (off, n int) { return 37 * i, 1 + 61*i%700 }
	for i := range t.Size(40, 12) {
		off, n := at(i)
		dst := make([]byte, n)
		p, err := t.Queue.StartRead(t.Ctx, b, off, dst)
		t.OK(err)
		reads, got = append(reads, p), append(got, dst)
	}
	for i, p := range reads {
		t.WaitFor(p)
		off, n := at(i)
		t.Same(fmt.Sprintf("%d B from %d on", n, off), want[off:off+n], got[i])
	}
}

func bytesOfPart(t *rig.T) {
	b := t.Buffer(allocator.DRAM, 20*64, 64)
	want := t.Fill(b, 4)
	part, err := b.Sub(5*64, 6*64)
	t.OK(err)
	t.Cleanup(func() { t.Free(part) })
	t.WriteAt(part, 70, rig.Pattern(5, 100))
	copy(want[5*64+70:], rig.Pattern(5, 100))
	got := make([]byte, 150)
	t.OK(t.Queue.Read(t.Ctx, part, 33, got))
	t.Same("inside of the part", want[5*64+33:5*64+33+150], got)
	t.Holds("the whole", b, want)
}

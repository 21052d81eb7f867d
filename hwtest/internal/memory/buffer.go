// Package memory has the cases of buffers and their transfers.
package memory

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

// Cases are the cases of buffers of every layout, their transfers, and memory of the host that the
// device reaches.
func Cases() (cs rig.Table) {
	for _, k := range kinds {
		for _, size := range []int{1, 4, 15, 16, 32, 48, 64, 100, 1000, 2048, 4096, 4097, 64 << 10, 200 << 10} {
			for _, pages := range []int{1, 13, 150} {
				if size*pages > 8<<20 || k == allocator.L1 && pages > 100 && size > 4097 {
					continue
				}
				cs.Add(fmt.Sprintf("%v %d pages of %d", k, pages, size), "what is written to a buffer is read from it, whatever its page",
					func(t *rig.T) { WriteRead(t, k, size, pages) })
			}
		}
		rig.Pairs(&cs, "%v part of pages of %d", "writing or reading a range of pages touches exactly that range", Partial,
			[]allocator.Kind{k}, []int{16, 100, 2048, 70_000})
	}
	cs.Add("several MiB", "transfers much larger than the queue's rings come through whole", severalMiB)
	cs.Add("outside of the buffer", "transfers beyond a buffer are a *TransferError", transferErrors)
	cs.Add("held by a program", "a loaded program keeps its buffers' memory", heldByProgram)
	return slices.Concat(cs, memoryCases(), transferCases(), pinnedCases())
}

var kinds = []allocator.Kind{allocator.DRAM, allocator.L1}

func WriteRead(t *rig.T, k allocator.Kind, size, pages int) {
	page := size
	if pages == 1 {
		page = 0
	}
	b := t.Buffer(k, size*pages, page)
	if b.Size() != size*pages || b.PageSize() != size {
		t.Errorf("%d B in pages of %d B", b.Size(), b.PageSize())
	}
	for i := range 2 {
		want := t.Fill(b, size*pages+i)
		t.Holds(b, want, "read back")
	}
}

func Partial(t *rig.T, k allocator.Kind, size int) {
	const pages = 37
	b := t.Buffer(k, size*pages, size)
	var ranges [][2]int
	for _, r := range [][2]int{{0, 1}, {36, 1}, {1, 35}, {7, 9}, {12, 12}, {11, 25}, {0, 37}} {
		ranges = append(ranges, [2]int{r[0] * size, min(r[1], pages-r[0]) * size})
	}
	inRanges(t, b, ranges)
}

// inRanges writes and reads ranges of a buffer: offset and length.
func inRanges(t *rig.T, b *reprise.Buffer, ranges [][2]int) {
	want := t.Fill(b, 1)
	for i, r := range ranges {
		part := rig.Pattern(i+2, r[1])
		t.WriteAt(b, r[0], part)
		copy(want[r[0]:], part)
		t.Same(part, t.ReadAt(b, r[0], r[1]), "%d B from %d on", r[1], r[0])
		t.Holds(b, want, "all after a write of %d B from %d on", r[1], r[0])
	}
}

func severalMiB(t *rig.T) {
	for _, size := range []int{2048, 4096, 100_000} {
		b := t.DRAMBuffer(t.Size(17<<20, 2<<20)/size*size, size)
		want := t.Fill(b, size)
		t.Holds(b, want, "pages of %d", size)
	}
}

func transferErrors(t *rig.T) {
	b := t.DRAMBuffer(1000, 100)
	before := rig.Pattern(1, 1000)
	t.Write(b, before)
	for _, r := range [][2]int{{-100, 100}, {0, 1100}, {1000, 100}, {950, 51}, {0, 1001}, {900, 200}, {1100, 0}, {1 << 40, 100}} {
		for op, do := range map[string]func() error{
			"write": func() error { return t.Queue.Write(t.Ctx, b, r[0], make([]byte, r[1])) },
			"read":  func() error { return t.Queue.Read(t.Ctx, b, r[0], make([]byte, r[1])) },
		} {
			err := do()
			if e := rig.As[*dispatch.TransferError](t, err); e.Op != op || e.Offset != r[0] || e.Size != r[1] || e.Have != 1000 ||
				e.Page != 0 {
				t.Errorf("%s of %d at %d: error %v (%+v)", op, r[1], r[0], err, e)
			}
			t.Says(err, "reprise: "+op+` buffer "test"`, fmt.Sprintf("%d B at offset %d", r[1], r[0]), "1000 B: stay inside")
		}
	}
	t.Holds(b, before, "untouched")
}

func heldByProgram(t *rig.T) {
	b := t.L1Buffer(64*t.Grid().Size(), 64)
	x := t.Load(t.StoreProgram("holder", t.Grid(), b, 1))
	t.Free(b)
	other := t.L1Buffer(64*t.Grid().Size(), 64)
	if other.Addr() == b.Addr() {
		t.Error("memory that a loaded program uses was handed out")
	}
	want := t.Fill(other, 8)
	t.RunAndWait(x)
	t.Holds(other, want, "another buffer after the program ran")
	t.Release(x)
	rig.Equal(t, t.L1Buffer(64*t.Grid().Size(), 64).Addr(), b.Addr(), "address of a buffer after the program was closed")
}

func transferCases() (cs rig.Table) {
	const anyRange = "any range of bytes is read and written, and nothing beside it"
	rig.Pairs(&cs, "bytes of pages of %d in %v", anyRange, func(t *rig.T, page int, k allocator.Kind) {
		byteRanges(t, reprise.BufferConfig{Kind: k, Size: 7 * page, PageSize: page})
	}, []int{16, 32, 100, 2048, 5000}, kinds)
	for _, s := range []allocator.ShardSpec{
		shards(allocator.HeightSharded, []int{12, 1}, []int{2, 1}, 3, 2), shards(allocator.WidthSharded, []int{2, 12}, []int{2, 2}, 3, 2),
		shards(allocator.BlockSharded, []int{4, 6}, []int{2, 2}, 3, 2),
	} {
		for _, page := range []int{48, 272} {
			cs.Add(fmt.Sprintf("bytes of %v pages of %d", s.Layout, page), "any range of bytes of shards is read and written, and nothing beside it",
				func(t *rig.T) { byteRanges(t, reprise.BufferConfig{Kind: allocator.L1, PageSize: page, Sharding: &s}) })
		}
	}
	cs.Add("started reads of bytes", "started reads of parts complete in order", startedBytes)
	cs.Add("bytes of a part of a buffer", "a part of a buffer has its own offsets", bytesOfPart)
	return cs
}

func byteRanges(t *rig.T, c reprise.BufferConfig) {
	c.Name = "bytes"
	b := t.BufferOf(c)
	page, n := b.PageSize(), b.Size()
	ranges := [][2]int{{1, 1}, {page - 1, 2}, {0, page + 1}, {page / 2, 3 * page}, {n - 1, 1}, {3, n - 5}, {page + 5, page - 5}}
	inRanges(t, b, ranges[:t.Size(len(ranges), 5)])
}

func startedBytes(t *rig.T) {
	b := t.DRAMBuffer(50*100, 100)
	want := t.Fill(b, 3)
	var reads []func(string, ...any)
	for i := range t.Size(40, 12) {
		reads = append(reads, t.StartRead(b, 37*i, want[37*i:][:1+61*i%700]))
	}
	for i, check := range reads {
		check("read %d", i)
	}
}

func bytesOfPart(t *rig.T) {
	b := t.DRAMBuffer(20*64, 64)
	want := t.Fill(b, 4)
	part, err := b.Sub(5*64, 6*64)
	t.OK(err)
	t.Cleanup(func() { t.Free(part) })
	t.WriteAt(part, 70, rig.Pattern(5, 100))
	copy(want[5*64+70:], rig.Pattern(5, 100))
	t.Same(want[5*64+33:5*64+33+150], t.ReadAt(part, 33, 150), "inside of the part")
	t.Holds(b, want, "the whole")
}

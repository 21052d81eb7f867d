// Package memory has the cases of buffers and their transfers.
package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
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

const notCopied = "what the device itself reads and writes in host memory is right to the byte, and nothing beside it changes"

func pinnedCases() (cs rig.Table) {
	rig.Pairs(&cs, "pinned memory and pages of %d in %v", notCopied, func(t *rig.T, page int, k allocator.Kind) {
		pinnedRanges(t, reprise.BufferConfig{Kind: k, Size: 7 * page, PageSize: page}, page%16 == 0)
	}, []int{16, 100, 2048, 5008}, kinds)
	for _, s := range []allocator.ShardSpec{
		shards(allocator.HeightSharded, []int{12, 1}, []int{2, 1}, 3, 2), shards(allocator.BlockSharded, []int{4, 6}, []int{2, 2}, 3, 2),
	} {
		cs.Add(fmt.Sprintf("pinned memory and %v pages", s.Layout), notCopied, func(t *rig.T) {
			pinnedRanges(t, reprise.BufferConfig{Kind: allocator.L1, PageSize: 256, Sharding: &s}, true)
		})
	}
	cs.Add("pinned memory, large", "a transfer without a copy may be larger than the queue's own memory", pinnedLarge)
	cs.Add("pinned memory in the order of the queue", "transfers with pinned memory keep their place in the queue", pinnedInOrder)
	cs.Add("pinned memory given up in time", "Free waits for transfers that the caller hasn't waited for", pinnedFree)
	cs.Add("pinned memory and a context that ends", "a wait ends with its context, and the queue goes on", pinnedCancelled)
	return cs
}

// PinnedBetweenQueues are the cases of pinned memory on two queues.
func PinnedBetweenQueues() (cs rig.Table) {
	cs.Add("pinned memory from queue to queue", "one queue fetches what another put into host memory before an event", pinnedBetweenQueues)
	return cs
}

// direct is pinned memory that transfers must not copy.
func direct(t *rig.T, n int) *reprise.HostBuffer {
	return t.Pinned(reprise.HostBufferConfig{Size: n, Strict: true})
}

func pinnedRanges(t *rig.T, c reprise.BufferConfig, strict bool) {
	c.Name = "device"
	b := t.BufferOf(c)
	h := t.Pinned(reprise.HostBufferConfig{Size: b.Size() + 1024})
	exact := t.Pinned(reprise.HostBufferConfig{Size: b.Size() + 1024, Strict: strict})
	want := t.Fill(b, 1)
	page, n := b.PageSize(), b.Size()
	for i, r := range []struct {
		off, at, n int
		direct     bool
	}{
		{0, 0, n, true}, {16, 48, n - 16, true}, {page, 16, 2*page + 1, true}, {1, 17, n - 2, false}, {page / 2, 5, page, false},
	}[:t.Size(5, 3)] {
		h := h
		if r.direct {
			h = exact
		}
		copy(h.Bytes(), rig.Pattern(10+i, len(h.Bytes())))
		t.OK(t.Queue.WriteFrom(t.Ctx, b, r.off, h, r.at, r.n))
		copy(want[r.off:], h.Bytes()[r.at:r.at+r.n])
		t.Holds(b, want, "written: %+v", r)
		host := rig.Pattern(20+i, len(h.Bytes()))
		copy(h.Bytes(), host)
		copy(host[r.at:], want[r.off:r.off+r.n])
		t.OK(t.Queue.ReadTo(t.Ctx, b, r.off, h, r.at, r.n))
		t.Same(host, h.Bytes(), "read: %+v", r)
	}
}

func pinnedLarge(t *rig.T) {
	n := t.Size(24<<20, 512<<10)
	b := t.DRAMBuffer(n, n/4)
	h := direct(t, 2*n)
	copy(h.Bytes(), rig.Pattern(7, n))
	w, err := t.Queue.StartWriteFrom(t.Ctx, b, 0, h, 0, n)
	t.OK(err)
	r, err := t.Queue.StartReadTo(t.Ctx, b, 0, h, n, n)
	t.OK(err)
	t.WaitFor(r)
	done, err := w.Done()
	t.OK(err)
	if !done {
		t.Error("a read is done and the write before it isn't")
	}
	t.Same(h.Bytes()[:n], h.Bytes()[n:], "what came back")
}

func pinnedInOrder(t *rig.T) {
	const pages = 8
	in, out := t.DRAMBuffer(pages*64, 64), t.DRAMBuffer(pages*64, 64)
	h := direct(t, 64<<10)
	const addend = 3
	x := t.Load(t.AddProgram("add", chip.Core{X: 1, Y: 1}, in, out, addend))
	n := t.Size(20, 6)
	var reads []*reprise.Pending
	for i := range n {
		to := 2*i*in.Size() + in.Size()
		copy(h.Bytes()[2*i*in.Size():], numbered(in.Size(), i, 0))
		_, err := t.Queue.StartWriteFrom(t.Ctx, in, 0, h, 2*i*in.Size(), in.Size())
		t.OK(err)
		t.Start(x)
		p, err := t.Queue.StartReadTo(t.Ctx, out, 0, h, to, in.Size())
		t.OK(err)
		reads = append(reads, p)
	}
	for i, p := range reads {
		t.WaitFor(p)
		got := h.Bytes()[(2*i+1)*in.Size():][:in.Size()]
		t.Same(numbered(in.Size(), i, addend), got, "result %d", i)
	}
}

func numbered(n, round, plus int) []byte {
	return rig.MakeWords(n, func(i int) uint32 { return uint32(i | round<<8 + plus) })
}

func pinnedFree(t *rig.T) {
	n := t.Size(1<<20, 64<<10)
	b := t.DRAMBuffer(n, 2048)
	h := direct(t, n)
	copy(h.Bytes(), rig.Pattern(3, n))
	_, err := t.Queue.StartWriteFrom(t.Ctx, b, 0, h, 0, n)
	t.OK(err)
	t.Release(h)
	t.Holds(b, rig.Pattern(3, n), "written by a transfer without a wait")
	t.Fails("after Free", t.Queue.ReadTo(t.Ctx, b, 0, h, 0, n), reprise.ErrReleased)
}

func pinnedCancelled(t *rig.T) {
	n := t.Size(1<<20, 64<<10)
	b := t.DRAMBuffer(n, 2048)
	h := direct(t, n)
	t.Write(b, rig.Pattern(4, n))
	ctx, cancel := context.WithCancel(t.Ctx)
	p, err := t.Queue.StartReadTo(ctx, b, 0, h, 0, n)
	t.OK(err)
	cancel()
	if err := p.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	t.Wait()
	t.Same(rig.Pattern(4, n), h.Bytes(), "what the device wrote all the same")
	clear(h.Bytes())
	t.OK(t.Queue.ReadTo(t.Ctx, b, 0, h, 0, n))
	t.Same(rig.Pattern(4, n), h.Bytes(), "after it")
}

func pinnedBetweenQueues(t *rig.T) {
	const n = 32 << 10
	q, e := t.Both(), t.Dev.NewEvent("delivered")
	in, out := t.DRAMBuffer(n, 2048), t.DRAMBuffer(n, 1024)
	h := direct(t, 3*n)
	for i := range t.Size(20, 4) {
		first, second := q[i%2], q[1-i%2]
		want := rig.Pattern(i, n)
		copy(h.Bytes(), want)
		_, err := first.StartWriteFrom(t.Ctx, in, 0, h, 0, n)
		t.OK(err)
		_, err = first.StartReadTo(t.Ctx, in, 0, h, n, n)
		t.OK(err)
		_, err = second.StartWriteFrom(t.Ctx, out, 0, h, 2*n, n) // has nothing to do with them
		t.OK(err)
		t.Follows(second, first, e)
		t.OK(second.WriteFrom(t.Ctx, out, 0, h, n, n))
		t.Holds(out, want, "round %d", i)
	}
}

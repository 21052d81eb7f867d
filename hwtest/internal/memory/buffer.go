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
	"github.com/reprise-tt/reprise/kernels"
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
	cs.Add("several MiB", "transfers much larger than the queue's rings come through whole", func(t *rig.T) {
		for _, size := range []int{2048, 4096, 100_000} {
			b := t.DRAMBuffer(t.Size(17<<20, 2<<20)/size*size, size)
			want := t.Fill(b, size)
			t.Holds(b, want, "pages of %d", size)
		}
	})
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
	cs.Add("pinned memory given up in time", "Free waits for transfers that the caller hasn't waited for", func(t *rig.T) {
		n := t.Size(1<<20, 64<<10)
		b := t.DRAMBuffer(n, 2048)
		h := direct(t, n)
		copy(h.Bytes(), rig.Pattern(3, n))
		t.OK(rig.Error(t.Queue.StartWriteFrom(t.Ctx, b, 0, h, 0, n)))
		t.Release(h)
		t.Holds(b, rig.Pattern(3, n), "written by a transfer without a wait")
		t.Fails("after Free", t.Queue.ReadTo(t.Ctx, b, 0, h, 0, n), reprise.ErrReleased)
	})
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
		t.OK(rig.Error(t.Queue.StartWriteFrom(t.Ctx, in, 0, h, 2*i*in.Size(), in.Size())))
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
		t.OK(rig.Error(first.StartWriteFrom(t.Ctx, in, 0, h, 0, n)))
		t.OK(rig.Error(first.StartReadTo(t.Ctx, in, 0, h, n, n)))
		t.OK(rig.Error(second.StartWriteFrom(t.Ctx, out, 0, h, 2*n, n))) // has nothing to do with them
		t.Follows(second, first, e)
		t.OK(second.WriteFrom(t.Ctx, out, 0, h, n, n))
		t.Holds(out, want, "round %d", i)
	}
}

type shardedCase struct {
	Name string
	Spec allocator.ShardSpec
}

// shards are on a grid of w by h cores, or of DRAM banks.
func shards(l allocator.Layout, tensor, shard []int, w, h int) allocator.ShardSpec {
	return allocator.ShardSpec{Layout: l, Tensor: tensor, Shard: shard, Cores: []chip.Range{chip.Grid(w, h)}}
}

func byColumns(s allocator.ShardSpec) allocator.ShardSpec {
	s.Orientation = allocator.ColMajor
	return s
}

// ShardedCases are layouts that every device has the cores for.
func ShardedCases() []shardedCase {
	inner := byColumns(shards(allocator.BlockSharded, []int{4, 6}, []int{2, 2}, 2, 3))
	inner.Cores = []chip.Range{{Start: chip.Core{X: 1, Y: 1}, End: chip.Core{X: 2, Y: 3}}}
	return []shardedCase{
		{"height", shards(allocator.HeightSharded, []int{11, 2}, []int{3, 2}, 2, 2)},
		{"height by columns", byColumns(shards(allocator.HeightSharded, []int{12, 1}, []int{2, 1}, 2, 4))},
		{"width", shards(allocator.WidthSharded, []int{4, 7}, []int{4, 2}, 4, 1)},
		{"block", shards(allocator.BlockSharded, []int{5, 5}, []int{2, 2}, 3, 3)},
		{"block by columns", inner},
		{"ND round robin", shards(allocator.NDSharded, []int{3, 4, 3}, []int{2, 2, 2}, 3, 1)},
	}
}

func memoryCases() (cs rig.Table) {
	for _, c := range ShardedCases() {
		cs.Add("sharded "+c.Name, "kernels and host find the same pages of a sharded buffer",
			func(t *rig.T) { ShardedKernel(t, allocator.L1, c.Spec) })
		cs.Add("sharded transfers "+c.Name, "what is written to a sharded buffer is read from it, in whole and in part",
			func(t *rig.T) { shardedTransfers(t, allocator.L1, c.Spec) })
	}
	cs.Add("sharded in DRAM", "shards in DRAM lie in the banks that were named", shardedDRAM)
	cs.Add("fixed address", "a buffer lies where it was asked to, and comes back to where it was", fixedAddress)
	return cs
}

// Opened are cases that open the device in their own way.
func Opened() (cs rig.Table) {
	cs.Add("L1 small", "small sharded buffers lie at the top of L1, in their own region, and work", smallBuffers)
	cs.Add("trace region", "a trace region of fixed size takes its share of every bank and no more", fixedTraceRegion)
	return cs
}

// Sharded configures pages of 16 B, whose every word a kernel's arguments can give.
func Sharded(k allocator.Kind, s allocator.ShardSpec, page int) reprise.BufferConfig {
	return reprise.BufferConfig{Kind: k, PageSize: page, Name: "sharded", Sharding: &s}
}

// Numbers is a program whose cores write their pages' numbers to a sharded L1 buffer's places.
func Numbers(t *rig.T, b *reprise.Buffer) (p *reprise.Program, want []byte) {
	page := uint32(b.PageSize())
	// Kernels store runs of words, also to places without a page.
	type span struct{ low, high uint32 }
	spans := map[chip.Core]span{}
	for i := range b.Pages() {
		p, ok := b.Page(i)
		if back, off, ok2 := b.PageAt(p); !ok || !ok2 || back != i || off != 0 {
			t.Fatalf("page %d is at %+v, where page %d + %d is", i, p, back, off)
		}
		at, have := spans[p.Core]
		if !have {
			at = span{p.Addr, p.Addr}
		}
		spans[p.Core] = span{min(at.low, p.Addr), max(at.high, p.Addr)}
	}
	var cores []chip.Range
	for _, c := range b.Cores() {
		if _, ok := spans[c]; ok {
			cores = append(cores, chip.Single(c.X, c.Y))
		}
	}
	want = rig.MakeWords(b.Size(), func(i uint32) uint32 { return numberedWord(int(i/(page/4)), i%(page/4)) })
	return rig.OneKernel(reprise.Kernel{
		Name: "store", Image: t.Kernel(kernels.Store), Processor: chip.BRISC, Cores: cores, Common: []uint32{0},
		Args: func(c chip.Core) []uint32 {
			s := spans[c]
			args := []uint32{s.low, (s.high-s.low)/4 + page/4}
			for addr := s.low; addr <= s.high; addr += page {
				n, _, ok := b.PageAt(reprise.Place{Bank: t.WorkerIndex(c), Addr: addr})
				for i := range page / 4 {
					v := uint32(0xDEADDEAD)
					if ok {
						v = numberedWord(n, i)
					}
					args = append(args, v)
				}
			}
			return args
		},
	}, b), want
}

func numberedWord(page int, i uint32) uint32 { return uint32(page)<<8 | i | 0xA5000000 }

// ShardedKernel checks both ways that kernels and host find the same pages.
func ShardedKernel(t *rig.T, k allocator.Kind, s allocator.ShardSpec) {
	b := t.BufferOf(Sharded(k, s, 16))
	p, want := Numbers(t, b)
	cores := p.Kernels[0].Cores
	t.RunProgram(p)
	t.Holds(b, want, "what the kernels wrote")

	for i := range want {
		want[i] ^= 0xFF
	}
	t.Write(b, want)
	seen := t.PerWorker(64)
	last := map[chip.Core]int{}
	for i := range b.Pages() {
		p, _ := b.Page(i)
		last[p.Core] = i
	}
	t.RunProgram(rig.OneKernel(reprise.Kernel{
		Name: "touch", Image: t.Own("touch"), Processor: chip.BRISC, Cores: cores,
		Args: func(c chip.Core) []uint32 {
			p, _ := b.Page(last[c])
			return []uint32{p.Addr, seen.Addr()}
		},
	}, b, seen))
	got := t.Words(seen, 0)
	for c, n := range last {
		rig.Equal(t, got[t.WorkerIndex(c)], ^numberedWord(n, 0), "core %v at page %d", c, n)
	}
}

func shardedTransfers(t *rig.T, k allocator.Kind, s allocator.ShardSpec) {
	for _, page := range []int{16, 100, 2048} {
		b := t.BufferOf(Sharded(k, s, page))
		guard := t.Buffer(k, 64*t.Dev.Memory(k).Banks, 64)
		beside := t.Fill(guard, 77)
		want := t.Fill(b, page)
		t.Holds(b, want, "pages of %d", page)
		first, n := b.Pages()/3, b.Pages()/2
		part := rig.Pattern(page+1, n*page)
		t.WriteAt(b, first*page, part)
		copy(want[first*page:], part)
		t.Holds(b, want, "pages of %d after writing %d from %d on", page, n, first)
		t.Same(want[(first-1)*page:(first+1)*page], t.ReadAt(b, (first-1)*page, 2*page), "two pages")
		t.Holds(guard, beside, "another buffer")
		if e := rig.As[*dispatch.TransferError](t, t.Queue.Write(t.Ctx, b, b.Size(), make([]byte, page))); e.Have != b.Size() {
			t.Errorf("beyond the end: %v", e)
		}
	}
}

func shardedDRAM(t *rig.T) {
	s := shards(allocator.HeightSharded, []int{9, 1}, []int{2, 1}, t.Dev.DRAMBanks()-1, 1)
	shardedTransfers(t, allocator.DRAM, s)
	// What was written as shards is found as interleaved pages at the same address.
	b := t.BufferOf(Sharded(allocator.DRAM, s, 64))
	want := t.Fill(b, 5)
	addr := b.Addr()
	t.Free(b)
	flat := t.BufferOf(reprise.BufferConfig{Kind: allocator.DRAM, Size: 2 * 64 * t.Dev.DRAMBanks(), PageSize: 64, Name: "flat", Addr: addr})
	got := t.ReadAll(flat)
	for i := range 9 {
		at := (i%2*t.Dev.DRAMBanks() + i/2) * 64
		t.Same(want[i*64:i*64+64], got[at:at+64], "page %d", i)
	}
	nowhere := shards(allocator.HeightSharded, []int{1, 1}, []int{1, 1}, 1, 1)
	nowhere.Cores = rig.On(0, 1)
	if _, err := t.Dev.NewBuffer(Sharded(allocator.DRAM, nowhere, 64)); err == nil {
		t.Error("a shard in a DRAM bank that isn't there was allocated")
	}
}

func fixedAddress(t *rig.T) {
	for _, k := range kinds {
		before := t.Dev.MemoryFingerprint(k)
		size := 128 * t.Dev.Memory(k).Banks
		conf := reprise.BufferConfig{Kind: k, Size: size, PageSize: 64, Name: "chosen"}
		b := t.BufferOf(conf)
		if t.Dev.MemoryFingerprint(k) == before {
			t.Errorf("%v: the fingerprint doesn't see a buffer", k)
		}
		want := t.Fill(b, 9)
		there := conf
		there.Addr = b.Addr()
		_, err := t.Dev.NewBuffer(there)
		if e := rig.As[*allocator.OccupiedError](t, err); len(e.By) != 1 || e.By[0].Owner != "chosen" {
			t.Errorf("%v: where something is: %v", k, err)
		}
		t.Free(b)
		rig.Equal(t, t.Dev.MemoryFingerprint(k), before, "%v: fingerprint after a buffer came and went", k)
		again := t.BufferOf(conf)
		rig.Equal(t, again.Addr(), b.Addr(), "%v: address with the same fingerprint", k)
		t.Holds(again, want, "what was there before")
		t.Free(again)
		fixed := t.BufferOf(there)
		rig.Equal(t, fixed.Addr(), b.Addr(), "%v: fixed address", k)
		t.Holds(fixed, want, "at its fixed address")
	}
}

func smallBuffers(t *rig.T) {
	const small = 24_576
	t = t.Full(reprise.WithL1Small(small))
	top := uint64(t.L1.Size)
	if m := t.Dev.Memory(allocator.L1Small); m.Total != small || m.High != top || t.Dev.Memory(allocator.L1).High != m.Low {
		t.Errorf("L1 small is %+v", m)
	}
	c := ShardedCases()[3].Spec
	b := t.BufferOf(Sharded(allocator.L1Small, c, 64))
	rig.Equal(t, uint64(b.Addr()), top-4*64, "address of the first small buffer")
	want := t.Fill(b, 1)
	t.Holds(b, want, "a small buffer")
	ShardedKernel(t, allocator.L1Small, c)
	t.Holds(b, want, "a small buffer beside another")
	_, err := t.Dev.NewBuffer(Sharded(allocator.L1Small, c, small))
	if e := rig.As[*allocator.OutOfMemoryError](t, err); e.Kind != allocator.L1Small || e.Total != small {
		t.Errorf("more than the region has: %v", err)
	}
	if _, err := t.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1Small, Size: 64, Name: "interleaved"}); err == nil {
		t.Error("an interleaved buffer was put into L1 small")
	}
	t.Free(b)
}

func fixedTraceRegion(t *rig.T) {
	const region = 800_768
	t = t.Full(reprise.WithTraceRegion(region))
	banks := t.Dev.DRAMBanks()
	tr, dram := t.Dev.Memory(allocator.Trace), t.Dev.Memory(allocator.DRAM)
	if share := uint64((region/banks + 8191) / 8192 * 8192); tr.Total != share || tr.High != t.Dev.DRAMBankSize() || dram.High != tr.Low {
		t.Errorf("%d banks: %+v, and DRAM %+v", banks, tr, dram)
	}
	b := t.PerWorker(64)
	x := t.Load(t.StoreProgram("store", t.Grid(), b, 40))
	hole := int(t.Dev.Memory(allocator.DRAM).LargestHole)
	all := t.DRAMBuffer(hole*banks, hole)
	trace := t.Capture("in the region", x)
	for _, e := range trace.Parts()[0].Extents {
		if e.Start < tr.Low || e.End > tr.High {
			t.Errorf("the trace has %+v, outside of its region [%#x,%#x)", e, tr.Low, tr.High)
		}
	}
	t.Replay(trace)
	t.Wait()
	t.WantWords("after a replay", b, 0, func(c chip.Core) uint32 { return 40 + uint32(t.WorkerIndex(c)) })
	t.Free(all)
}

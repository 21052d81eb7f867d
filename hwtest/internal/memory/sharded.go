package memory

import (
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kernels"
)

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
	t.RunAndWait(t.Load(p))
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
	t.RunAndWait(t.Load(rig.OneKernel(reprise.Kernel{
		Name: "touch", Image: t.Own("touch"), Processor: chip.BRISC, Cores: cores,
		Args: func(c chip.Core) []uint32 {
			p, _ := b.Page(last[c])
			return []uint32{p.Addr, seen.Addr()}
		},
	}, b, seen)))
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

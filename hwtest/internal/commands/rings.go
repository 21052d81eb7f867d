package commands

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

// Rings are the cases of layer rings.
func Rings() (cs rig.Table) {
	rig.Each(&cs, "programs with the completion count from %#x",
		"completion counts wrap at 17 bits on the device and at 32 bits on the host without a program noticing",
		countFrom, 0, 0x1FF00, 0xFFF0, 0x1FFFF, 0xFFFFFF00, 0xFFFFFFFF)
	rig.Each(&cs, "issue ring wraps with batches of %d", "batches that don't fit the issue ring's end begin at its base",
		issueWraps, 1, 4096, 65536, 100_000, 126<<10)
	rig.Each(&cs, "completion ring wraps with records of %d", "records wrap around the completion ring at any size",
		completionWraps, 16, 4080, 4081, 50_000, 120_000)
	cs.Add("prefetch queue three laps", "the prefetch queue wraps and never overtakes the prefetcher", func(t *rig.T) {
		batches(t.Queues(dispatch.Options{}), 3*rig.PrefetchEntries+100, 16, 16, 1000)
	})
	cs.Add("prefetch queue full", "a full prefetch queue makes the host wait, not overwrite", prefetchFull)
	cs.Add("dispatch ring with commands of all sizes", "commands end and begin anywhere in the dispatcher's ring and its blocks", dispatchRingSizes)
	cs.Add("reads ahead of the host", "a full completion ring makes the device wait until the host has read", completionFull)
	return cs
}

// mixImage compiles the mix program with its kernels in DRAM.
func mixImage(t *rig.T, on chip.Range, number uint32, at uint32, dram uint32) *dispatch.Image {
	k := dispatch.Kernel{Name: "mix", Processor: chip.BRISC, Cores: []chip.Range{on}, Text: t.Own("mix").Text, Common: []uint32{number}}
	for c := range on.Cores() {
		k.Args = append(k.Args, dispatch.CoreArgs{Core: c, Args: []uint32{at, uint32(c.X)}})
	}
	out, err := t.Dispatch.Compile(&dispatch.Program{Name: "mix", Kernels: []dispatch.Kernel{k}})
	t.OK(err)
	banks := len(t.Chip.DRAMBanks())
	t.OK(out.Place(dram, banks))
	iv := dispatch.Interleaved{DRAM: true, Addr: dram, PageSize: program.BinaryPageSize, HostPage: program.BinaryPageSize,
		Pages: len(out.Binary()) / program.BinaryPageSize, Banks: banks}
	t.OK(t.CQ.Write(t.Ctx, &iv, 0, out.Binary()))
	t.Finish()
	return out
}

func countFrom(t *rig.T, start uint32) {
	t = t.Queues(dispatch.Options{})
	streamAt(t, start)
	g := t.Grid()
	for c := range g.Cores() {
		t.Poke(c, rig.Scratch, make([]byte, 4))
	}
	im := mixImage(t, g, 77, rig.Scratch, 1<<20)
	want := make([]uint32, g.End.X+1)
	for i := range t.Size(300, 60) {
		t.OK(t.CQ.Run(t.Ctx, im))
		for x := range want {
			want[x] = rig.Mixed(want[x], 77, x)
		}
		if i%50 == 49 {
			t.Finish()
		}
	}
	t.Finish()
	for c := range g.Cores() {
		rig.Equal(t, rig.Word(t.Peek(c, rig.Scratch, 4)), want[c.X], "core %v", c)
	}
}

func issueWraps(t *rig.T, n int) {
	t = t.Queues(dispatch.Options{QueueMemory: 1 << 20})
	total := t.Size(12<<20, 3<<20)
	if n < 100 {
		total = t.Size(2<<20, 1<<19)
	}
	place := (n + 31) &^ 15
	batches(t, (total+max(n, 64)-1)/max(n, 64), n, place, max(1, min(64, 0x100000/place)))
}

// batches sends writes of n bytes to places in turn, and compares what the places have at the end.
func batches(t *rig.T, count, n, place, places int) {
	c := t.Grid().End
	at := func(i int) int { return rig.Scratch + i%places*place }
	for i := range count {
		t.Send(func(b *cq.Builder) { t.WriteTile(b, c, at(i), rig.Pattern(i, n)) })
	}
	t.Finish()
	for i := max(0, count-places); i < count; i++ {
		t.InL1(c, uint32(at(i)), rig.Pattern(i, n), "batch %d", i)
	}
}

func completionWraps(t *rig.T, n int) {
	t = t.Queues(dispatch.Options{QueueMemory: 1 << 20})
	rounds := t.Size(200, 40) // the ring holds 63 pages
	if n > 40_000 {
		rounds = t.Size(60, 20)
	}
	for i := range rounds {
		received(t, rig.Pattern(i, n+i%5), "record %d", i)
	}
}

func prefetchFull(t *rig.T) {
	t = t.Queues(dispatch.Options{})
	c := t.Grid().End
	release := t.Block()
	n := rig.PrefetchEntries + 400 // more than the prefetch queue and the dispatcher's ring hold
	sent := make(chan error, 1)
	u := *t
	go func() {
		var err error
		for i := 0; i < n && err == nil; i++ {
			b := cq.NewBuilder(u.Layout(), nil)
			b.WriteLinear(cq.WriteLinear{NOC: u.Params.Arch.NOCXY(u.Virtual(c)), Addr: uint64(rig.Scratch + 16*i),
				Data: rig.Pattern(i, 16)})
			err = u.CQ.Send(u.Ctx, b.Bytes(), false)
		}
		sent <- err
	}()
	pre, _ := t.CQ.Cores()
	t.Waypoint(pre, chip.BRISC, "RING")
	release()
	t.OK(<-sent)
	t.Finish()
	for i := range n {
		t.InL1(c, uint32(rig.Scratch+16*i), rig.Pattern(i, 16), "batch %d", i)
	}
}

func dispatchRingSizes(t *rig.T) {
	t = t.Queues(dispatch.Options{})
	c := t.Grid().Start
	rounds := t.Size(400, 80)
	for i := range rounds {
		n := 1 + i*i*37%90_000
		data := rig.Pattern(i, n)
		t.Send(func(b *cq.Builder) {
			t.WriteTile(b, c, rig.Scratch, data)
			b.WritePacked(cq.WritePacked{Type: cq.PackedRuntimeArgs, NoStride: true, Size: uint16(1 + n%4096), Addr: 0x80000,
				Cores: []uint32{t.NOCXY(c), t.NOCXY(t.Grid().End)}, Data: rig.Pattern(i, cq.SlotStride(1+n%4096))})
		})
		if i%20 == 19 {
			t.Finish()
			t.InL1(c, rig.Scratch, data, "round %d", i)
			t.InL1(t.Grid().End, 0x80000, rig.Pattern(i, cq.SlotStride(1+n%4096))[:1+n%4096], "round %d packed", i)
		}
	}
	t.Finish()
}

// completionFull asks for more than the completion ring holds before it reads.
func completionFull(t *rig.T) {
	t = t.Queues(dispatch.Options{QueueMemory: 1 << 20})
	banks := len(t.Chip.DRAMBanks())
	iv := dispatch.Interleaved{DRAM: true, Addr: 1 << 20, PageSize: 4096, HostPage: 4096, Pages: 500, Banks: banks}
	want := rig.Pattern(5, iv.Bytes())
	t.OK(t.CQ.Write(t.Ctx, &iv, 0, want))
	var errs []chan error
	var got [][]byte
	for range 3 {
		p, done := make([]byte, len(want)), make(chan error, 1)
		go func() { done <- t.CQ.Read(t.Ctx, &iv, 0, p) }()
		errs, got = append(errs, done), append(got, p)
	}
	for i := range errs {
		t.OK(<-errs[i])
		t.Same(want, got[i], "reader %d", i)
	}
}

package hwtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-tt/reprise"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/kernels"
)

// prefetchEntries is the length of the prefetch queue.
const prefetchEntries = 1534

func ringCases() []testCase {
	var cs []testCase
	for _, start := range []uint32{0, 0x1FF00, 0xFFF0, 0x1FFFF, 0xFFFFFF00, 0xFFFFFFFF} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("programs with the completion count from %#x", start),
			protects: "completion counts wrap at 17 bits on the device and at 32 bits on the host without a program noticing",
			fn:       func(t *fixture) { countFrom(t, start) },
		})
	}
	for _, n := range []int{1, 4096, 65536, 100_000, 126 << 10} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("issue ring wraps with batches of %d", n),
			protects: "batches that don't fit the issue ring's end begin anew at its base, on both sides",
			fn:       func(t *fixture) { issueWraps(t, n) },
		})
	}
	for _, n := range []int{16, 4080, 4081, 50_000, 120_000} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("completion ring wraps with records of %d", n),
			protects: "records wrap around the completion ring at any size",
			fn:       func(t *fixture) { completionWraps(t, n) },
		})
	}
	return append(cs, []testCase{
		{name: "prefetch queue three laps", protects: "the prefetch queue wraps and never overtakes the prefetcher", fn: prefetchLaps},
		{name: "prefetch queue full", protects: "a full prefetch queue makes the host wait, not overwrite", fn: prefetchFull},
		{name: "dispatch ring with commands of all sizes", protects: "commands end and begin anywhere in the dispatcher's ring and its blocks", fn: dispatchRingSizes},
		{name: "reads ahead of the host", protects: "a full completion ring makes the device wait until the host has read", fn: completionFull},
		{name: "large reads through little memory", protects: "reads many times the completion ring's size arrive whole", fn: largeReads},
		{name: "fixed trace region", protects: "traces live in a region of fixed size and buffers stay out of it", fn: fixedRegion},
		{name: "trace region too small", protects: "a trace that doesn't fit its region is refused with the size that would do", fn: regionTooSmall},
		{name: "trace region used up", protects: "a region holds traces until it is full and again after a release", fn: regionUsedUp},
		{name: "hundreds of captures", protects: "captures and releases leave nothing behind", fn: manyCaptures},
		{name: "two queues take turns", protects: "two command queues can share the workers if each waits for the other", fn: queuesTakeTurns},
	}...)
}

// mixImage compiles the mix program below the allocator, with its kernels in DRAM.
func (t *fixture) mixImage(on chip.Range, number uint32, at uint32, dram uint32) *dispatch.Image {
	t.Helper()
	file, err := prebuilt.ELF(t.p.Arch, "mix")
	t.ok(err)
	im, err := kernels.Load(file)
	t.ok(err)
	k := dispatch.Kernel{Name: "mix", Processor: chip.BRISC, Cores: []chip.Range{on}, Text: im.Text, Common: []uint32{number}}
	for c := range on.Cores() {
		k.Args = append(k.Args, dispatch.CoreArgs{Core: c, Args: []uint32{at, uint32(c.X)}})
	}
	out, err := t.disp.Compile(&dispatch.Program{Name: "mix", Kernels: []dispatch.Kernel{k}})
	t.ok(err)
	banks := len(t.ch.DRAMBanks())
	t.ok(out.Place(dram, banks))
	iv := dispatch.Interleaved{DRAM: true, Addr: dram, PageSize: program.BinaryPageSize, HostPage: program.BinaryPageSize,
		Pages: len(out.Binary()) / program.BinaryPageSize, Banks: banks}
	t.ok(t.q.Write(t.ctx, &iv, 0, out.Binary()))
	t.finish()
	return out
}

func countFrom(t *fixture, start uint32) {
	t = t.queues(dispatch.Options{})
	t.streamAt(start)
	g := t.grid()
	for c := range g.Cores() {
		t.poke(c, scratch, make([]byte, 4))
	}
	im := t.mixImage(g, 77, scratch, 1<<20)
	want := make([]uint32, g.End.X+1)
	for i := range t.size(300, 60) {
		t.ok(t.q.Run(t.ctx, im))
		for x := range want {
			want[x] = mixed(want[x], 77, x)
		}
		if i%50 == 49 {
			t.finish()
		}
	}
	t.finish()
	for c := range g.Cores() {
		if got := binary.LittleEndian.Uint32(t.peek(c, scratch, 4)); got != want[c.X] {
			t.Errorf("core %v has %#x, want %#x", c, got, want[c.X])
		}
	}
}

func issueWraps(t *fixture, n int) {
	t = t.queues(dispatch.Options{QueueMemory: 1 << 20})
	c := t.grid().End
	total := t.size(12<<20, 3<<20)
	if n < 100 {
		total = t.size(2<<20, 1<<19)
	}
	place := (n + 31) &^ 15
	slots := max(1, min(64, 0x100000/place))
	count := 0
	for sent := 0; sent < total; sent += max(n, 64) {
		t.send(func(b *cq.Builder) {
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: uint64(scratch + count%slots*place), Data: pattern(uint32(count), n)})
		})
		count++
	}
	t.finish()
	for i := max(0, count-slots); i < count; i++ {
		t.same(fmt.Sprintf("batch %d", i), pattern(uint32(i), n), t.peek(c, uint32(scratch+i%slots*place), n))
	}
}

func completionWraps(t *fixture, n int) {
	t = t.queues(dispatch.Options{QueueMemory: 1 << 20})
	rounds := t.size(200, 40) // the ring holds 63 pages
	if n > 40_000 {
		rounds = t.size(60, 20)
	}
	for i := range rounds {
		data, got := pattern(uint32(i), n+i%5), make([]byte, n+i%5)
		t.ok(t.q.Receive(t.ctx, t.commands(func(b *cq.Builder) { b.WriteHost(cq.WriteHost{Data: data}) }), got))
		t.same(fmt.Sprintf("record %d", i), data, got)
	}
}

func prefetchLaps(t *fixture) {
	t = t.queues(dispatch.Options{})
	c := t.grid().End
	n := 3*prefetchEntries + 100
	for i := range n {
		t.send(func(b *cq.Builder) {
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: uint64(scratch + i%1000*16), Data: pattern(uint32(i), 16)})
		})
	}
	t.finish()
	for i := n - 1000; i < n; i++ {
		t.same(fmt.Sprintf("batch %d", i), pattern(uint32(i), 16), t.peek(c, uint32(scratch+i%1000*16), 16))
	}
}

// prefetchFull blocks the dispatcher, fills everything in front of it, and releases it.
func prefetchFull(t *fixture) {
	t = t.queues(dispatch.Options{})
	c, d := t.grid().End, t.dispatchCore()
	t.poke(d, free, make([]byte, 4))
	t.send(func(b *cq.Builder) { b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: free, Count: 1}) })
	t.waypoint(d, chip.BRISC, "WMEM")
	n := prefetchEntries + 400 // more than the prefetch queue and the dispatcher's ring hold
	sent := make(chan error, 1)
	u := *t
	go func() {
		var err error
		for i := 0; i < n && err == nil; i++ {
			b := cq.NewBuilder(u.layout(), nil)
			b.WriteLinear(cq.WriteLinear{NOC: u.p.Arch.NOCXY(u.virtual(c)), Addr: uint64(scratch + 16*i), Data: pattern(uint32(i), 16)})
			err = u.q.Send(u.ctx, b.Bytes(), false)
		}
		sent <- err
	}()
	pre, _ := t.q.Cores()
	t.waypoint(pre, chip.BRISC, "RING")
	t.poke(d, free, []byte{1, 0, 0, 0})
	t.ok(<-sent)
	t.finish()
	for i := range n {
		t.same(fmt.Sprintf("batch %d", i), pattern(uint32(i), 16), t.peek(c, uint32(scratch+16*i), 16))
	}
}

func dispatchRingSizes(t *fixture) {
	t = t.queues(dispatch.Options{})
	c := t.grid().Start
	rounds := t.size(400, 80)
	for i := range rounds {
		n := 1 + i*i*37%90_000
		data := pattern(uint32(i), n)
		t.send(func(b *cq.Builder) {
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: scratch, Data: data})
			b.WritePacked(cq.WritePacked{Type: cq.PackedRuntimeArgs, NoStride: true, Size: uint16(1 + n%4096), Addr: 0x80000,
				Cores: []uint32{t.nocXY(c), t.nocXY(t.grid().End)}, Data: pattern(uint32(i), cq.SlotStride(1+n%4096))})
		})
		if i%20 == 19 {
			t.finish()
			t.same(fmt.Sprintf("round %d", i), data, t.peek(c, scratch, n))
			t.same(fmt.Sprintf("round %d packed", i), pattern(uint32(i), cq.SlotStride(1+n%4096))[:1+n%4096],
				t.peek(t.grid().End, 0x80000, 1+n%4096))
		}
	}
	t.finish()
}

// completionFull asks for much more than the completion ring holds before anything is read.
func completionFull(t *fixture) {
	t = t.queues(dispatch.Options{QueueMemory: 1 << 20})
	banks := len(t.ch.DRAMBanks())
	iv := dispatch.Interleaved{DRAM: true, Addr: 1 << 20, PageSize: 4096, HostPage: 4096, Pages: 500, Banks: banks}
	want := pattern(5, iv.Bytes())
	t.ok(t.q.Write(t.ctx, &iv, 0, want))
	var errs []chan error
	var got [][]byte
	for range 3 {
		p, done := make([]byte, len(want)), make(chan error, 1)
		go func() { done <- t.q.Read(t.ctx, &iv, 0, p) }()
		errs, got = append(errs, done), append(got, p)
	}
	for i := range errs {
		t.ok(<-errs[i])
		t.same(fmt.Sprintf("reader %d", i), want, got[i])
	}
}

func largeReads(t *fixture) {
	t = t.full(t.device.Open(), reprise.WithQueueMemory(1<<20))
	for _, size := range []int{48, 4096, 4100, 130_000} {
		b := t.buffer(allocator.DRAM, t.size(6<<20, 600<<10)/size*size, size)
		want := pattern(uint32(size), b.Size())
		t.ok(t.rq.Write(t.ctx, b, 0, want))
		for range 2 {
			t.same(fmt.Sprintf("pages of %d", size), want, t.readAll(b))
		}
	}
}

func fixedRegion(t *fixture) {
	t = t.full(t.device.Open(), reprise.WithTraceRegion(4<<20))
	s := t.dev.Memory(allocator.Trace)
	if d := t.dev.Memory(allocator.DRAM); d.High != s.Low {
		t.Errorf("buffers may lie up to %#x, traces from %#x on", d.High, s.Low)
	}
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	tr := t.capture("t", x, x)
	if e := tr.Parts()[0].Extents[0]; e.Start < s.Low || e.End > s.High {
		t.Errorf("the trace lies at %#x..%#x, the region at %#x..%#x", e.Start, e.End, s.Low, s.High)
	}
	t.ok(tr.Replay(t.ctx))
	t.ok(t.rq.Wait(t.ctx))
	f.run(5, t.grid())
	f.run(5, t.grid())
	f.check("replayed")
}

func regionTooSmall(t *fixture) {
	t = t.full(t.device.Open(), reprise.WithTraceRegion(4096))
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	before := t.allocated()
	_, err := t.rq.Capture(t.ctx, "large", func(_ context.Context, r *reprise.Recorder) error {
		for range 200 {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
	var oom *allocator.OutOfMemoryError
	if !errors.As(err, &oom) || oom.TraceRegion == 0 || !strings.Contains(err.Error(), "large") {
		t.Fatalf("error %v (%+v)", err, oom)
	}
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
	// With the size that the error names it fits.
	need := oom.TraceRegion
	t = t.reopened(reprise.WithTraceRegion(need))
	f = t.follow()
	x = t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	var seq []*reprise.Executable
	for range 200 {
		seq = append(seq, x)
	}
	t.capture("large", seq...)
}

// reopened closes the device of a case that has opened it itself, and opens it with other options.
func (t *fixture) reopened(opts ...reprise.Option) *fixture {
	t.Helper()
	t.ok(t.dev.Close(t.Context()))
	u := *t
	u.dev = nil
	return u.full(t.device.Open(), opts...)
}

func regionUsedUp(t *fixture) {
	t = t.full(t.device.Open(), reprise.WithTraceRegion(1<<20))
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	var all []*reprise.Trace
	for {
		tr, err := t.rq.Capture(t.ctx, fmt.Sprint(len(all)), func(_ context.Context, r *reprise.Recorder) error {
			for range 50 {
				if err := r.Run(x); err != nil {
					return err
				}
			}
			return nil
		})
		if errors.Is(err, reprise.ErrOutOfMemory) {
			break
		}
		t.ok(err)
		all = append(all, tr)
	}
	if len(all) == 0 {
		t.Fatal("not one trace fits")
	}
	t.ok(all[0].Release(t.ctx))
	again := t.capture("again", x)
	t.ok(again.Replay(t.ctx))
	t.ok(t.rq.Wait(t.ctx))
	f.run(5, t.grid())
	f.check("replayed")
	for _, tr := range all[1:] {
		t.ok(tr.Release(t.ctx))
	}
}

func manyCaptures(t *fixture) {
	t = t.full(t.device.Open())
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	before := t.allocated()
	for i := range t.size(200, 20) {
		tr, err := t.rq.Capture(t.ctx, fmt.Sprint(i), func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
		t.ok(err)
		t.ok(tr.Replay(t.ctx))
		f.run(5, t.grid())
		t.ok(tr.Release(t.ctx))
	}
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
	f.check("after all")
}

func queuesTakeTurns(t *fixture) {
	t = t.full(t.device.Open(), reprise.WithQueues(2))
	b := t.buffer(allocator.DRAM, 64*100, 64)
	for i := range t.size(50, 10) {
		want := pattern(uint32(i), b.Size())
		w, r := t.dev.Queue(i%2), t.dev.Queue((i+1)%2)
		t.ok(w.Write(t.ctx, b, 0, want))
		t.ok(w.Wait(t.ctx))
		got := make([]byte, b.Size())
		t.ok(r.Read(t.ctx, b, 0, got))
		t.same(fmt.Sprintf("round %d", i), want, got)
	}
}

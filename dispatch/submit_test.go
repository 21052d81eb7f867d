package dispatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

// plainNode is an emulated card whose TLB windows are plain memory: it shows what the host's side
// of a submission costs.
type plainNode struct{ seam.Node }

type plainFile struct{ seam.File }

func (n plainNode) Open(flags int) (seam.File, error) {
	f, err := n.Node.Open(flags)
	return plainFile{f}, err
}

func (f plainFile) Mmap(off uint64, n int) (seam.Mapping, error) {
	return seam.Mapping{Mem: make([]byte, n), Unmap: func() error { return nil }}, nil
}

type plainTarget struct{ card *sim.Card }

func (t plainTarget) Node() seam.Node { return plainNode{t.card.Node()} }
func (t plainTarget) String() string  { return "plain memory" }

func hostOnly(tb testing.TB) (q *Queue, take func()) {
	tb.Helper()
	d := hostOnlyDevice(tb, 1)
	return d.queues[0], func() { takeAll(d.queues[0]) }
}

func hostOnlyDevice(tb testing.TB, queues int) *Device {
	tb.Helper()
	kd, err := kmd.Open(context.Background(), plainTarget{sim.Blackhole()})
	must(tb, err)
	tb.Cleanup(func() { kd.Close() })
	p := chip.Blackhole.Params()
	ch := whole(tb, chip.Blackhole)
	d := &Device{machine: newMachine(kd, ch, Options{HangTimeout: defaultHangTimeout, Queues: queues, QueueMemory: defaultQueueMemory})}
	must(tb, d.planQueues())
	d.describe()
	d.eventXYs = d.dispatchXYs()
	host, err := kd.PinHostMemory(4096)
	must(tb, err)
	for id := range queues {
		d.sets = append(d.sets, &workerSet{})
		q := newQueue(d.machine, id)
		q.tiles.prefetchL1, err = kd.OpenWindow(p.Windows[0].Size, kmd.Uncached)
		must(tb, err)
		q.status.starts.Store(1)
		q.rings.fetch = fetchRing{win: q.tiles.prefetchL1, entries: memmap.FetchEntries, log: 1, base: d.ctl.FetchQueue,
			rdAddr: d.ctl.FetchRead}
		q.rings.fetch.lastR = q.rings.fetch.initialRead()
		q.tiles.prefetchL1.Store32(uint64(d.ctl.FetchRead), q.rings.fetch.lastR)
		q.rings.issue = issueRing{mem: make([]byte, 12<<20)}
		q.comp.ring.mem = make([]byte, memmap.PageSize)
		q.comp.ring.host, q.comp.ring.win = host, q.tiles.prefetchL1
		d.add(q)
		q.newLanesLocked()
	}
	return d
}

func takeAll(q *Queue) {
	last := (q.rings.fetch.next + memmap.FetchEntries - 1) % memmap.FetchEntries
	q.tiles.prefetchL1.Store32(uint64(q.d.ctl.FetchRead), q.rings.fetch.addr(last))
}

func replayCommands(tb testing.TB) *Prepared {
	tb.Helper()
	b := cq.NewBuilder(cq.Blackhole, nil)
	b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
	at := b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: cq.NewGoWord(0, 16, 3, cq.SignalReplayTrace), WaitStream: 48})
	wait := b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream | cq.ClearStream, Stream: 48})
	b.ExecBuf(cq.ExecBuf{Base: 0x100000, LogPageSize: 12, Pages: 16})
	cmds, err := b.Finish()
	must(tb, err)
	return &Prepared{
		Name: "replay", Bytes: cmds, After: Detached{Expected: 390},
		Counts: []CountPatch{{At: at + cq.AtGoWaitCount}, {At: wait + cq.AtWaitCount, Add: 130}},
	}
}

func TestReportsSaveAskingTheDevice(t *testing.T) {
	q, _ := hostOnly(t) // the pointer that the device publishes stays as it is
	b := batched(t, q)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("full"))
	defer cancel()
	for range 20 {
		for range memmap.FetchEntries / 2 {
			must(t, b.Submit(ctx))
		}
		q.comp.taken.Store(q.rings.fetch.put)
	}
	var err error
	for range memmap.FetchEntries {
		if err = b.Submit(ctx); err != nil {
			break
		}
	}
	expect.Error(t, err) // more entries than the prefetch queue has, and none is known to be taken
}

func BenchmarkSubmit(b *testing.B) {
	shared := hostOnlyDevice(b, 1).queues[0]
	shared.set = &workers{workerSet: &workerSet{shared: true}}
	for _, c := range []struct {
		name string
		qs   []*Queue
	}{
		{"replay", hostOnlyDevice(b, 1).queues},
		{"replay on workers that two queues share", []*Queue{shared}},
		{"two queues", hostOnlyDevice(b, 2).queues},
		{"two devices", []*Queue{hostOnlyDevice(b, 1).queues[0], hostOnlyDevice(b, 1).queues[0]}},
	} {
		b.Run(c.name, func(b *testing.B) {
			batch := batchedAgain(b, c.qs)
			ctx := context.Background()
			b.SetBytes(int64(len(c.qs) * len(replayCommands(b).Bytes)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%512 == 0 {
					for _, q := range c.qs {
						takeAll(q)
					}
				}
				expect.Must(b, batch.Submit(ctx))
			}
		})
	}
	b.Run("memcpy", func(b *testing.B) {
		p := replayCommands(b)
		ring := make([]byte, 12<<20)
		b.SetBytes(int64(len(p.Bytes)))
		off := 0
		for b.Loop() {
			copy(ring[off:], p.Bytes)
			if off += len(p.Bytes); off == len(ring) {
				off = 0
			}
		}
	})
}

func fillRing(t *testing.T, q *Queue, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for {
		if err := q.sendLocked(ctx, make([]byte, n), false); err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			return
		}
	}
}

func parts(n int) (p []byte, ends []int) {
	p = make([]byte, n)
	for i := range p {
		p[i] = byte(i / 997)
	}
	for end := memmap.MaxCommandSize; end < n; end += memmap.MaxCommandSize {
		ends = append(ends, end)
	}
	return p, append(ends, n)
}

func TestCancelledPartsLeaveNothingBehind(t *testing.T) {
	q, take := hostOnly(t)
	fillRing(t, q, memmap.MaxCommandSize)
	p, ends := parts(5*memmap.MaxCommandSize/2 + 128)
	put, wr := q.rings.fetch.put, q.rings.issue.wr
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no longer wanted")
	time.AfterFunc(5*time.Millisecond, func() { cancel(why) })
	expect.Fails(t, q.sendBatchesLocked(ctx, "program", p, ends), why, "error")
	if q.rings.fetch.put != put || q.rings.issue.wr != wr || q.status.failed.Load() != nil {
		t.Errorf("%d entries and %d B further, failed %v: want the queue as it was", q.rings.fetch.put-put, q.rings.issue.wr-wr,
			q.status.failed.Load())
	}
	take()
	must(t, q.sendBatchesLocked(t.Context(), "program", p, ends))
	expect.Equal(t, q.rings.fetch.put-put, uint64(len(ends)), "entries for %d batches", len(ends))
	if !bytes.Equal(fetched(q, wr, ends), p) {
		t.Error("the commands in the ring differ")
	}
}

func fetched(q *Queue, rd uint32, ends []int) (p []byte) {
	start := 0
	for _, end := range ends {
		n := uint32(end - start)
		if rd+n > uint32(len(q.rings.issue.mem)) {
			rd = 0
		}
		p = append(p, q.rings.issue.mem[rd:rd+n]...)
		rd, start = rd+n, end
	}
	return p
}

func TestPartsAroundTheEndOfTheRing(t *testing.T) {
	for _, rest := range []int{128, memmap.MaxCommandSize - 128, memmap.MaxCommandSize, memmap.MaxCommandSize + 128,
		2 * memmap.MaxCommandSize, 5*memmap.MaxCommandSize/2 + 64,
		5*memmap.MaxCommandSize/2 + 128, 3 * memmap.MaxCommandSize} {
		q, _ := hostOnly(t)
		p, ends := parts(5*memmap.MaxCommandSize/2 + 128)
		q.rings.issue.wr = uint32(len(q.rings.issue.mem) - rest)
		wr := q.rings.issue.wr
		must(t, q.sendBatchesLocked(t.Context(), "program", p, ends))
		if !bytes.Equal(fetched(q, wr, ends), p) {
			t.Errorf("%d B before the end of the ring: the prefetcher reads something else", rest)
		}
	}
}

func TestPartsBeyondTheRingAreSentToTheEnd(t *testing.T) {
	q, _ := hostOnly(t)
	p, ends := parts(len(q.rings.issue.mem) + memmap.MaxCommandSize)
	ctx, cancel := context.WithCancel(t.Context())
	// The prefetcher begins to take entries when the program has been abandoned.
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		time.Sleep(5 * time.Millisecond)
		cancel()
		for i := uint32(0); ; time.Sleep(100 * time.Microsecond) {
			select {
			case <-end:
				return
			default:
			}
			if at := q.rings.fetch.addr(i % memmap.FetchEntries); q.tiles.prefetchL1.Load16(uint64(at)) != 0 {
				q.tiles.prefetchL1.Store16(uint64(at), 0)
				q.tiles.prefetchL1.Store32(uint64(q.d.ctl.FetchRead), at)
				i++
			}
		}
	}()
	err := q.sendBatchesLocked(ctx, "program", p, ends)
	close(end)
	<-ended
	if err != nil || q.status.failed.Load() != nil || q.rings.fetch.put != uint64(len(ends)) {
		t.Errorf("%d of %d batches, %v, failed %v", q.rings.fetch.put, len(ends), err, q.status.failed.Load())
	}
	expect.Error(t, ctx.Err()) // the program was not sent before
}

func TestWriteSettled(t *testing.T) {
	const page = 4096
	full := memmap.MaxCommandSize / page
	for _, c := range []struct{ page, pages int }{
		{1024, 1}, {page, full - 1}, {page, full}, {page, full + 1}, {page, 3 * full}, {2 * memmap.MaxCommandSize, 1}, {2 * memmap.MaxCommandSize, 2},
	} {
		q, take := hostOnly(t)
		data := make([]byte, c.page*c.pages)
		for i := range data {
			data[i] = byte(i / 64)
		}
		iv := Interleaved{DRAM: true, PageSize: uint32(c.page), HostPage: uint32(c.page), Pages: c.pages, Banks: 8}
		must(t, q.WriteSettled(t.Context(), &iv, 0, data))
		var written []byte
		var kinds []string
		start := uint32(0)
		for i := range q.rings.fetch.put {
			end := *q.rings.issue.end(i)
			for e, err := range cq.All(q.d.layout(), q.rings.issue.mem[start:end]) {
				must(t, err)
				kinds = append(kinds, e.Command.ID().String())
				for r := range e.Relayed {
					if w, ok := r.Command.(cq.WritePaged); ok {
						written = append(written, w.Data...)
					}
				}
			}
			start = end
		}
		take()
		stall := cq.Stall{}.ID().String()
		n := 0
		for _, k := range kinds {
			if k == stall {
				n++
			}
		}
		if n != 1 || kinds[len(kinds)-1] != stall {
			t.Errorf("%d pages of %d B: %d stalls in %v", c.pages, c.page, n, kinds)
		}
		if !bytes.Equal(written, data) {
			t.Errorf("%d pages of %d B: %d B were written, not all of them as they should", c.pages, c.page, len(written))
		}
	}
}

func prepared(tb testing.TB, q *Queue) *Prepared {
	tb.Helper()
	p := replayCommands(tb)
	p.Queue = q
	return p
}

func batched(tb testing.TB, qs ...*Queue) *Batch {
	tb.Helper()
	var ps []*Prepared
	for _, q := range qs {
		ps = append(ps, prepared(tb, q))
	}
	b, err := NewBatch(ps...)
	must(tb, err)
	return b
}

func entries(q *Queue, from uint64) []uint16 {
	var out []uint16
	for i := from; i < q.rings.fetch.put; i++ {
		out = append(out, q.tiles.prefetchL1.Load16(uint64(q.rings.fetch.addr(uint32(i%memmap.FetchEntries)))))
	}
	return out
}

func full(tb testing.TB, q *Queue) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	for {
		if err := q.sendLocked(ctx, make([]byte, memmap.MaxCommandSize), false); err != nil {
			return
		}
	}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestBatchAllocatesNothing(t *testing.T) {
	one, two, other := hostOnlyDevice(t, 1), hostOnlyDevice(t, 2), hostOnlyDevice(t, 1)
	for name, qs := range map[string][]*Queue{
		"one queue":     one.queues,
		"two queues":    two.queues,
		"two devices":   {other.queues[0], one.queues[0]},
		"three devices": {other.queues[0], two.queues[1], one.queues[0], two.queues[0]},
	} {
		t.Run(name, func(t *testing.T) {
			b := batchedAgain(t, qs)
			allocs := testing.AllocsPerRun(2000, func() {
				must(t, b.Submit(context.Background()))
				for _, q := range qs {
					takeAll(q)
				}
			})
			expect.Equal(t, allocs, 0, "allocations of a submission")
		})
	}
}

func batchedAgain(tb testing.TB, qs []*Queue) *Batch {
	for _, q := range qs {
		takeAll(q)
	}
	return batched(tb, qs...)
}

func TestBatchWritesCommandsAndEntry(t *testing.T) {
	for _, devices := range []int{1, 2} {
		var qs []*Queue
		for range devices {
			qs = append(qs, hostOnlyDevice(t, 1).queues[0])
		}
		b := batched(t, qs...)
		for i, expected := range []uint32{0, 390, 390} {
			off := qs[0].rings.issue.wr
			must(t, b.Submit(t.Context()))
			for k, q := range qs {
				p := b.parts[k].Prepared
				got := q.rings.issue.mem[off:q.rings.issue.wr]
				if len(got) != len(p.Bytes) {
					t.Fatalf("submission %d of %d devices: %d B in the ring, want %d B", i, devices, len(got), len(p.Bytes))
				}
				for _, c := range p.Counts {
					expect.Equal(t, binary.LittleEndian.Uint32(got[c.At:]), expected+uint32(c.Add), "submission %d of %d devices: count",
						i, devices)
				}
				if e := entries(q, uint64(i)); !slices.Equal(e, []uint16{uint16(len(got)/16) | cq.FetchStall}) {
					t.Errorf("submission %d of %d devices: the prefetch queue has %#x", i, devices, e)
				}
			}
		}
	}
}

func TestBatchLinksQueuesOfADevice(t *testing.T) {
	d := hostOnlyDevice(t, 2)
	b := batched(t, d.queues...)
	last := [2]uint32{}
	for i := range 3 {
		var from [2]uint64
		for id, q := range d.queues {
			from[id] = q.rings.fetch.put
		}
		must(t, b.Submit(t.Context()))
		for id, q := range d.queues {
			want := last[1-id]
			if i == 0 {
				want = 1 // the event that the first submission begins with
			}
			got := entries(q, from[id])
			if len(got) != 2 && (i > 0 || len(got) != 3) {
				t.Fatalf("submission %d: queue %d has %#x, want a part and an event", i, id, got)
			}
			at := b.parts[id].peers[0].at
			expect.Equal(t, binary.LittleEndian.Uint32(b.parts[id].Bytes[at:]), want, "submission %d: queue %d waits for event", i, id)
			e, err := firstDispatch(q, b.parts[id].Bytes)
			if w, ok := e.(cq.Wait); err != nil || !ok || w.Addr != d.ctl.LastEvent[1-id] {
				t.Errorf("queue %d begins with %v, %v: want a wait for the events of the other", id, e, err)
			}
		}
		for id, q := range d.queues {
			last[id] = uint32(q.stream.event)
		}
	}
	expect.Error(t, expect.ErrOf(NewBatch(b.parts[0].Prepared))) // a linked part
}

func firstDispatch(q *Queue, p []byte) (cq.DispatchCommand, error) {
	for e, err := range cq.All(q.d.layout(), p) {
		if c, _, ok := e.Dispatch(); ok || err != nil {
			return c, err
		}
	}
	return nil, errors.New("no command")
}

func TestBatchIsAllOrNothing(t *testing.T) {
	a, b, two := hostOnlyDevice(t, 1).queues[0], hostOnlyDevice(t, 1).queues[0], hostOnlyDevice(t, 2)
	a.shared = true
	full(t, b)
	full(t, two.queues[0])
	put, wr := a.rings.fetch.put, a.rings.issue.wr
	batch := batched(t, b, a)
	err := batch.Submit(soon(t))
	var e *BatchError
	if !errors.As(err, &e) || len(e.Errs) != 2 || !errors.Is(e.Errs[0], context.DeadlineExceeded) || e.Errs[1] != ErrSkipped {
		t.Errorf("error %v, want one of the first part, and that the second was skipped", err)
	}
	if a.rings.fetch.put != put || a.rings.issue.wr != wr {
		t.Errorf("%d entries and %d B further: want the queue as it was", a.rings.fetch.put-put, a.rings.issue.wr-wr)
	}
	if a.set.owner != nil || a.set.work != (work{}) {
		t.Errorf("the workers are queue %v's after a submission that failed", a.set.owner)
	}
	err = batched(t, two.queues[1], two.queues[0]).Submit(soon(t))
	if errors.As(err, &e) || errors.Is(err, ErrSkipped) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("queues of one device: error %v, want the context's", err)
	}
	for _, q := range []*Queue{a, b, two.queues[0], two.queues[1]} {
		must(t, q.usable("anything"))
	}
	takeAll(b)
	must(t, batch.Submit(t.Context()))
	if a.set.owner != a {
		t.Error("no queue holds the workers after a submission")
	}
}

func TestBatchRefusals(t *testing.T) {
	a, b := hostOnlyDevice(t, 1).queues[0], hostOnlyDevice(t, 1).queues[0]
	one, both := batched(t, a), batched(t, a, b)
	var rs []*Reservation
	for i, q := range []*Queue{a, b} {
		r, err := q.Reserve()
		must(t, err)
		rs = append(rs, r)
		for _, batch := range []*Batch{one, both} {
			expect.Fails(t, batch.Submit(t.Context()), ErrReserved, "%d of the queues are reserved: error", i+1)
		}
	}
	expect.Error(t, both.SubmitReserved(t.Context(), rs[:1])) // a queue is reserved by somebody else
	for _, batch := range []*Batch{one, both} {
		must(t, batch.SubmitReserved(t.Context(), rs))
	}
	for _, r := range rs {
		r.Release()
	}
	for _, batch := range []*Batch{one, both} {
		expect.Error(t, batch.SubmitReserved(t.Context(), rs)) // the reservation has ended
		must(t, batch.Submit(t.Context()))
	}
	a.Revoke(one.parts[0].Prepared)
	expect.Fails(t, one.Submit(t.Context()), ErrRevoked, "error")
	b.Revoke(both.parts[1].Prepared)
	var e *BatchError
	if err := both.Submit(t.Context()); !errors.As(err, &e) || e.Errs[0] != ErrSkipped || !errors.Is(e.Errs[1], ErrRevoked) {
		t.Errorf("error %v, want one of the second part", err)
	}
}

func TestBatchSubset(t *testing.T) {
	one, two := hostOnlyDevice(t, 1), hostOnlyDevice(t, 2)
	b := batched(t, two.queues[0], one.queues[0], two.queues[1])
	for name, keep := range map[string]func(*Queue) bool{
		"nothing":       func(*Queue) bool { return false },
		"half a device": func(q *Queue) bool { return q.id == 0 },
	} {
		if _, err := b.Subset(keep); err == nil {
			t.Errorf("%s of a batch is a batch", name)
		}
	}
	for _, d := range []*Device{one, two} {
		part, err := b.Subset(func(q *Queue) bool { return q.d == d.machine })
		must(t, err)
		put := []uint64{one.queues[0].rings.fetch.put, two.queues[0].rings.fetch.put, two.queues[1].rings.fetch.put}
		must(t, part.Submit(t.Context()))
		for i, q := range []*Queue{one.queues[0], two.queues[0], two.queues[1]} {
			if submitted := q.rings.fetch.put > put[i]; submitted != (q.d == d.machine) {
				t.Errorf("queue %d of %v: submitted %v, want %v", q.id, q.d.kd, submitted, !submitted)
			}
		}
	}
	must(t, b.Submit(t.Context()))
}

func TestNewBatchRefusals(t *testing.T) {
	d := hostOnlyDevice(t, 2)
	q0, q1 := d.queues[0], d.queues[1]
	shared := &workers{workerSet: &workerSet{shared: true}}
	for name, ps := range map[string][]*Prepared{
		"no parts":            nil,
		"no part":             {nil},
		"no queue":            {prepared(t, nil)},
		"the same queue":      {prepared(t, q0), prepared(t, q1), prepared(t, q0)},
		"the same part twice": func() []*Prepared { p := prepared(t, q0); return []*Prepared{p, p} }(),
	} {
		if _, err := NewBatch(ps...); err == nil {
			t.Errorf("%s: joined", name)
		}
	}
	for _, q := range d.queues {
		q.set, q.shared = shared, true
	}
	expect.Error(t, expect.ErrOf(NewBatch(prepared(t, q0), prepared(t, q1)))) // the same workers
}

func TestBatchesBesideEachOther(t *testing.T) {
	one, two := hostOnlyDevice(t, 1), hostOnlyDevice(t, 2)
	all := append(slices.Clone(two.queues), one.queues...)
	var batches []*Batch
	for _, qs := range [][]*Queue{all, {all[2], all[1], all[0]}, {all[1], all[2], all[0]}, all[2:], all[:2]} {
		batches = append(batches, batched(t, qs...))
	}
	done := make(chan error, len(batches))
	for _, b := range batches {
		go func() {
			for range 100 { // all of them find room
				if err := b.Submit(context.Background()); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range batches {
		select {
		case err := <-done:
			expect.Fails(t, err, nil, "error")
		case <-time.After(time.Minute):
			t.Fatal("they wait for each other")
		}
	}
}

func TestSubmitToALostDevice(t *testing.T) {
	d, drv := unpluggable(t, 1)
	q := d.queues[0]
	batch := batched(t, q)
	must(t, drv.Unplug(0))
	for range 2 { // the second finds a queue that has failed
		expect.Fails(t, batch.Submit(t.Context()), kmd.ErrDeviceLost, "error")
		if debug.SetPanicOnFault(false) {
			t.Error("faults of the caller panic")
		}
		if !q.mu.TryLock() {
			t.Fatal("the queue is locked")
		}
		q.mu.Unlock()
	}
}

func TestBatchToALostDevice(t *testing.T) {
	stays := hostOnlyDevice(t, 1).queues[0]
	d, drv := unpluggable(t, 2)
	for _, q := range d.queues {
		q.shared = false // as if they had workers of their own
		q.stream.end = partEnd{start: q.status.starts.Load()}
	}
	batch := batched(t, d.queues[0], stays, d.queues[1])
	must(t, drv.Unplug(0))
	err := batch.Submit(t.Context())
	var e *BatchError
	if !errors.As(err, &e) || e.Errs[1] != nil || !errors.Is(e.Errs[0], kmd.ErrDeviceLost) || !errors.Is(e.Errs[2], kmd.ErrDeviceLost) {
		t.Errorf("error %v, want one of both parts of the device that is lost", err)
	}
	expect.Equal(t, len(entries(stays, 0)), 1, "the device that stays has")
	for _, q := range d.queues {
		expect.Fails(t, q.usable("anything"), kmd.ErrDeviceLost, "queue %d takes commands", q.id)
		if !q.mu.TryLock() {
			t.Fatalf("queue %d is locked", q.id)
		}
		q.mu.Unlock()
	}
}

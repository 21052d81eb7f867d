package dispatch

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
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
	if err == nil {
		t.Error("more entries than the prefetch queue has, and nothing said that any were taken")
	}
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
				if err := batch.Submit(ctx); err != nil {
					b.Fatal(err)
				}
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
	if err := q.sendBatchesLocked(ctx, "program", p, ends); !errors.Is(err, why) {
		t.Errorf("error %v, want %v", err, why)
	}
	if q.rings.fetch.put != put || q.rings.issue.wr != wr || q.status.failed.Load() != nil {
		t.Errorf("%d entries and %d B further, failed %v: want the queue as it was", q.rings.fetch.put-put, q.rings.issue.wr-wr,
			q.status.failed.Load())
	}
	take()
	must(t, q.sendBatchesLocked(t.Context(), "program", p, ends))
	if n := q.rings.fetch.put - put; n != uint64(len(ends)) {
		t.Errorf("%d entries for %d batches", n, len(ends))
	}
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
	if ctx.Err() == nil {
		t.Error("the program was sent before its context ended")
	}
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

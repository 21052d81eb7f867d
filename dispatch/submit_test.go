package dispatch

import (
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
		q.rings.fetch = fetchRing{win: q.tiles.prefetchL1, entries: memmap.FetchEntries, log: 1, base: d.ctl.FetchQueue, rdAddr: d.ctl.FetchRead}
		q.rings.fetch.lastR = q.rings.fetch.initialRead()
		q.tiles.prefetchL1.Store32(uint64(d.ctl.FetchRead), q.rings.fetch.lastR)
		q.rings.issue = issueRing{mem: make([]byte, 12<<20)}
		q.comp.ring.mem = make([]byte, memmap.PageSize)
		q.comp.ring.host, q.comp.ring.win = host, q.tiles.prefetchL1
		d.add(q)
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

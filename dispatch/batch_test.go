package dispatch

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/kmd"
)

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
			if allocs != 0 {
				t.Errorf("a submission allocates %v times", allocs)
			}
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
					if v := binary.LittleEndian.Uint32(got[c.At:]); v != expected+uint32(c.Add) {
						t.Errorf("submission %d of %d devices: the count at %d is %d, want %d", i, devices, c.At, v, expected+uint32(c.Add))
					}
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
			if v := binary.LittleEndian.Uint32(b.parts[id].Bytes[at:]); v != want {
				t.Errorf("submission %d: queue %d waits for event %d of the other, want %d", i, id, v, want)
			}
			e, err := firstDispatch(q, b.parts[id].Bytes)
			if w, ok := e.(cq.Wait); err != nil || !ok || w.Addr != d.ctl.LastEvent[1-id] {
				t.Errorf("queue %d begins with %v, %v: want a wait for the events of the other", id, e, err)
			}
		}
		for id, q := range d.queues {
			last[id] = uint32(q.stream.event)
		}
	}
	if _, err := NewBatch(b.parts[0].Prepared); err == nil {
		t.Error("a linked part was joined again")
	}
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
		t.Error("the workers are nobody's after a submission")
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
			if err := batch.Submit(t.Context()); !errors.Is(err, ErrReserved) {
				t.Errorf("%d of the queues are reserved: error %v, want %v", i+1, err, ErrReserved)
			}
		}
	}
	if err := both.SubmitReserved(t.Context(), rs[:1]); err == nil {
		t.Error("a queue is reserved by somebody else, and the batch was submitted")
	}
	for _, batch := range []*Batch{one, both} {
		must(t, batch.SubmitReserved(t.Context(), rs))
	}
	for _, r := range rs {
		r.Release()
	}
	for _, batch := range []*Batch{one, both} {
		if err := batch.SubmitReserved(t.Context(), rs); err == nil {
			t.Error("submitted by a reservation that has ended")
		}
		must(t, batch.Submit(t.Context()))
	}
	a.Revoke(one.parts[0].Prepared)
	if err := one.Submit(t.Context()); !errors.Is(err, ErrRevoked) {
		t.Errorf("error %v, want %v", err, ErrRevoked)
	}
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
	if _, err := NewBatch(prepared(t, q0), prepared(t, q1)); err == nil {
		t.Error("the same workers: joined")
	}
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
			if err != nil {
				t.Error(err)
			}
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
		if err := batch.Submit(t.Context()); !errors.Is(err, kmd.ErrDeviceLost) {
			t.Errorf("error %v, want %v", err, kmd.ErrDeviceLost)
		}
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
	if got := len(entries(stays, 0)); got != 1 {
		t.Errorf("the device that stays has %d parts, want its own", got)
	}
	for _, q := range d.queues {
		if err := q.usable("anything"); !errors.Is(err, kmd.ErrDeviceLost) {
			t.Errorf("queue %d takes commands, %v", q.id, err)
		}
		if !q.mu.TryLock() {
			t.Fatalf("queue %d is locked", q.id)
		}
		q.mu.Unlock()
	}
}

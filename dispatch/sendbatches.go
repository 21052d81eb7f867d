package dispatch

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// sendBatchesLocked sends commands in batches that end at each of ends: all are sent or none,
// whenever ctx ends. Commands beyond the size of the issue ring are the exception: ctx ends only
// the wait for the first batch. Half a program in the queue needs its other half, so only a stopped
// device ends the rest.
func (q *Queue) sendBatchesLocked(ctx context.Context, what string, p []byte, ends []int) error {
	// A ring holds this much wherever it begins, beside the previous batch.
	if n := len(p); n <= (len(q.rings.issue.mem)-memmap.MaxCommandSize)/2 && len(ends) < int(q.rings.fetch.entries)/2 {
		return q.sendTogetherLocked(ctx, p, ends)
	}
	start := 0
	for _, end := range ends {
		if err := q.sendLocked(ctx, p[start:end], false); err != nil {
			if start > 0 {
				return q.fail(fmt.Errorf("dispatch: queue %d: %s was cut off in the middle: %w", q.id, what, err))
			}
			return err
		}
		start, ctx = end, context.WithoutCancel(ctx)
	}
	return nil
}

func (q *Queue) sendTogetherLocked(ctx context.Context, p []byte, ends []int) error {
	if err := q.roomForLocked(ctx, ends); err != nil {
		return err
	}
	start := 0
	for _, end := range ends {
		// The prefetcher may read each batch at the start of the ring.
		off := q.rings.issue.place(uint32(end - start))
		copy(q.rings.issue.mem[off:], p[start:end])
		q.publishLocked(off, uint32(end-start), false)
		start = end
	}
	return nil
}

// sendTwoLocked sends commands in two batches, the second from byte cut on: both or none.
func (q *Queue) sendTwoLocked(ctx context.Context, p []byte, cut int) error {
	q.stream.ends = append(q.stream.ends[:0], cut, len(p))
	return q.sendTogetherLocked(ctx, p, q.stream.ends)
}

// roomForLocked waits until all batches have room together.
func (q *Queue) roomForLocked(ctx context.Context, ends []int) error {
	fits := func() bool { return q.fitTogetherLocked(ends) }
	if fits() {
		return nil
	}
	if q.rings.fetch.advance(q.comp.taken.Load()); fits() {
		return nil
	}
	var lost error
	err := q.awaitLocked(ctx, "space in the issue queue", func() bool {
		lost = q.rings.fetch.poll()
		return lost != nil || fits()
	})
	if lost != nil {
		return q.fail(lost)
	}
	return err
}

func (q *Queue) fitTogetherLocked(ends []int) bool {
	if q.rings.fetch.spare() < uint32(len(ends)) {
		return false
	}
	wr, start := q.rings.issue.wr, 0
	for _, end := range ends {
		n := uint32(end - start)
		off := q.rings.issue.placeAfter(wr, n)
		if !q.fitsLocked(off, n) {
			return false
		}
		wr, start = off+n, end
	}
	return true
}

// Patch is a change of bytes of an interleaved DRAM buffer, all in one page.
type Patch struct {
	Off  int    // in the buffer, a multiple of the alignment of writes to DRAM
	Data []byte // a multiple of it long
}

// SubmitPatched submits p after patches of the trace in at that p runs. The patches are written
// once the prefetcher has read everything before, earlier replays included. The prefetcher goes on
// to p when the patches are in memory.
func (q *Queue) SubmitPatched(ctx context.Context, p *Prepared, at *Interleaved, patches []Patch) (err error) {
	q.mu.Lock()
	defer q.leave(&err, debug.SetPanicOnFault(true))
	if err := q.submittableLocked(p, nil); err != nil {
		return err
	}
	if err := q.patchLocked(ctx, at, patches); err != nil {
		q.rollbackLocked()
		return err
	}
	part := batchPart{Prepared: p}
	var noRoom error
	if part.offset, noRoom = q.roomLocked(ctx, uint32(len(p.Bytes))); noRoom != nil {
		q.rollbackLocked()
		return noRoom
	}
	part.copyLocked()
	_ = part.announceLocked()
	part.settleLocked()
	return nil
}

// Patch writes patches as SubmitPatched does.
func (q *Queue) Patch(ctx context.Context, at *Interleaved, patches []Patch) (err error) {
	q.mu.Lock()
	defer q.leave(&err, debug.SetPanicOnFault(true))
	if err := q.usable("patch"); err != nil {
		return err
	}
	return q.patchLocked(ctx, at, patches)
}

// patchLocked sends the writes of patches. Nothing has to wait before the writes: the prefetcher
// takes no commands while it reads a trace. After them the dispatcher waits for the writes and
// releases the prefetcher, which stalls until then.
func (q *Queue) patchLocked(ctx context.Context, at *Interleaved, patches []Patch) error {
	l := q.d.layout()
	b := cq.NewBuilder(l, q.stream.buf[:0])
	flush := func() error {
		cmds, err := b.Finish()
		if err != nil {
			return fmt.Errorf("dispatch: queue %d: patch: %w", q.id, err)
		}
		q.stream.buf = cmds
		err = q.sendLocked(ctx, cmds, false)
		b.Reset(q.stream.buf[:0])
		return err
	}
	for i := range patches {
		p := &patches[i]
		n := l.Stride(2*cq.HeaderSize + len(p.Data))
		if b.Len()+n+4*l.Stride(2*cq.HeaderSize) > memmap.MaxCommandSize {
			if err := flush(); err != nil {
				return err
			}
		}
		host := int(at.HostPage)
		bank, addr := at.at(p.Off / host)
		b.WritePaged(cq.WritePaged{
			DRAM: at.DRAM, StartPage: uint16(bank), Base: addr + uint32(p.Off%host), PageSize: uint32(len(p.Data)), Pages: 1, Data: p.Data,
		})
	}
	b.WaitStall(cq.Wait{})
	return flush()
}

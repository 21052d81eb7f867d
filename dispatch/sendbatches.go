package dispatch

import (
	"context"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// sendBatchesLocked sends all batches, which end at ends, or none. If they exceed the issue ring,
// ctx ends only the wait for the first: half a program in the queue needs its other half.
func (q *Queue) sendBatchesLocked(ctx context.Context, what string, p []byte, ends []int) error {
	// wherever a ring begins, beside the previous batch
	if n := len(p); n <= (len(q.rings.issue.mem)-memmap.MaxCommandSize)/2 && len(ends) < int(q.rings.fetch.entries)/2 {
		return q.sendTogetherLocked(ctx, p, ends)
	}
	start := 0
	for _, end := range ends {
		if err := q.sendLocked(ctx, p[start:end], false); err != nil {
			if start > 0 {
				return q.fail(q.errorf("%s was cut off in the middle: %w", what, err))
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
		off := q.rings.issue.place(uint32(end - start))
		copy(q.rings.issue.mem[off:], p[start:end])
		q.publishLocked(off, uint32(end-start), false)
		start = end
	}
	return nil
}

func (q *Queue) sendTwoLocked(ctx context.Context, p []byte, cut int) error {
	q.stream.ends = append(q.stream.ends[:0], cut, len(p))
	return q.sendTogetherLocked(ctx, p, q.stream.ends)
}

func (q *Queue) roomForLocked(ctx context.Context, ends []int) error {
	fits := func() bool { return q.fitTogetherLocked(ends) }
	if fits() {
		return nil
	}
	if q.rings.fetch.advance(q.comp.taken.Load()); fits() {
		return nil
	}
	return q.awaitRoomLocked(ctx, fits)
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

// SubmitPatched submits p after patches of the trace in at that p runs. They are written once the
// prefetcher has read everything before, earlier replays included.
func (q *Queue) SubmitPatched(ctx context.Context, p *Prepared, at *Interleaved, patches []Patch) (err error) {
	defer q.leave(&err, q.enter())
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
	defer q.leave(&err, q.enter())
	if err := q.usable("patch"); err != nil {
		return err
	}
	return q.patchLocked(ctx, at, patches)
}

// The writes need no wait before: the prefetcher takes no commands while it reads a trace. After
// them it stalls until the dispatcher has waited for the writes.
func (q *Queue) patchLocked(ctx context.Context, at *Interleaved, patches []Patch) error {
	l := q.d.layout()
	b := q.builderLocked()
	flush := func() error {
		err := q.sendBuiltLocked(ctx, "patch", &b)
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

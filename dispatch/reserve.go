package dispatch

import (
	"context"
	"errors"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// ErrReserved is returned for programs and replays while the queue is reserved.
var ErrReserved = errors.New("the queue is reserved: a trace is being stepped through or checked")

// maxRelay exceeds the bytes of any relay.
const maxRelay = 1024

// Reservation keeps a queue, and others with the same workers, from running anything but
// submissions through the reservation, so that programs can be sent piece by piece. Transfers and
// waits go on.
type Reservation struct{ q *Queue }

// Reserve returns ErrReserved if the queue's workers are reserved already.
func (q *Queue) Reserve() (*Reservation, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.d.subs != nil {
		return nil, q.errorf("%w", ErrSubDevices)
	}
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	if q.set.reserved != nil {
		return nil, q.errorf("%w", ErrReserved)
	}
	q.stream.reserved, q.set.reserved = &Reservation{q}, q
	return q.stream.reserved, nil
}

// Release ends the reservation.
func (r *Reservation) Release() {
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	if r.q.stream.reserved == r {
		r.q.stream.reserved = nil
		r.q.set.mu.Lock()
		r.q.set.reserved = nil
		r.q.set.mu.Unlock()
	}
}

// Starts is [Queue.Starts].
func (r *Reservation) Starts() uint64 { return r.q.Starts() }

func (r *Reservation) with(op string, name *string, f func(q *Queue) error) (err error) {
	q := r.q
	defer q.leave(&err, q.enter())
	if err := q.usable(op); err != nil {
		return err
	}
	if q.stream.reserved != r {
		return q.errorf("%s: the reservation has ended", op)
	}
	if q.shared {
		if err := q.acquireLocked(1, op, name); err != nil {
			return err
		}
	}
	if err := f(q); err != nil {
		q.rollbackLocked()
		return err
	}
	return nil
}

// RunAgain runs a program with the runtime arguments of an earlier recording: run are its commands,
// v is how they were encoded. reads are the commands before it that name the arguments which the
// device reads.
func (r *Reservation) RunAgain(ctx context.Context, im *Image, reads, run []byte, v Variant) error {
	return r.with(opRun, im.Label(), func(q *Queue) (err error) {
		st := q.stream.lanes[0].state
		if q.stream.buf, _, err = im.AppendAgain(append(q.stream.buf[:0], reads...), run, v, &st, q.dispatcher, q.stream.runs); err != nil {
			return err
		}
		if err := q.sendPiecesLocked(ctx, q.stream.buf, im.Name()); err != nil {
			return err
		}
		q.history.last.Store(im.Label())
		q.stream.lanes[0].state, q.stream.lastPrepared = st, nil
		q.stream.runs++
		return nil
	})
}

// Commands sends raw commands, such as a part of a trace. after is the queue's state after them.
// The words at counts are set to the queue's completion count plus Add.
func (r *Reservation) Commands(ctx context.Context, name string, cmds []byte, counts []CountPatch, after Detached) error {
	return r.with(opReplay, &name, func(q *Queue) error {
		q.stream.buf = append(q.stream.buf[:0], cmds...)
		for _, c := range counts {
			cq.Put32(q.stream.buf, c.At, uint32(q.stream.lanes[0].state.Expected+c.Add))
		}
		q.history.last.Store(&name)
		if err := q.sendPiecesLocked(ctx, q.stream.buf, name); err != nil {
			return err
		}
		q.stream.lanes[0].state, q.stream.lastPrepared = q.d.programs.After(after), nil
		return nil
	})
}

func (q *Queue) sendPiecesLocked(ctx context.Context, cmds []byte, name string) error {
	start, end := 0, 0
	q.stream.ends = q.stream.ends[:0]
	noFlush := false
	for e, err := range cq.All(q.d.layout(), cmds) {
		if err != nil {
			return q.errorf("%s: %w", name, err)
		}
		next := e.Offset + len(e.Raw)
		_, header := e.Command.(cq.RelayInlineNoFlush)
		limit := start + memmap.MaxCommandSize
		if header {
			limit -= maxRelay
		}
		if next > limit && !noFlush && end > start {
			q.stream.ends = append(q.stream.ends, end)
			start = end
		}
		end, noFlush = next, header
	}
	if end == 0 {
		return nil
	}
	if end > start {
		q.stream.ends = append(q.stream.ends, end)
	}
	return q.sendBatchesLocked(ctx, name, cmds, q.stream.ends)
}

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
	if f := &q.rings.fetch; f.entries-1-uint32(f.put-f.taken) < uint32(len(ends)) {
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

// Raw commands for tools and conformance tests. Commands that break the rules of package cq stop
// the queue's kernels for good.

// Send sends commands as one prefetch queue entry, whose stall bit only commands that end in an
// EXEC_BUF have. It returns once they are in the issue ring. Commands that change the completion
// count or the workers' launch pointers need a [Queue.SetState] after them.
func (q *Queue) Send(ctx context.Context, commands []byte, stall bool) (err error) {
	defer q.leave(&err, q.enter())
	if err := q.sendable("send", commands); err != nil {
		return err
	}
	q.history.last.Store(&opRaw)
	return q.sendLocked(ctx, commands, stall)
}

// Receive sends commands with one WRITE_LINEAR_H_HOST of data that names the queue in its Pad1 and
// carries len(dst) bytes, and waits for these.
func (q *Queue) Receive(ctx context.Context, commands, dst []byte) error {
	c, err := q.enqueueReceive(ctx, commands, dst)
	if err != nil {
		return err
	}
	err = q.awaitReport(ctx, "data of raw commands", c)
	if err != nil {
		q.comp.abandon(c.read)
	}
	return err
}

func (q *Queue) enqueueReceive(ctx context.Context, commands, dst []byte) (done *completion, err error) {
	defer q.leave(&err, q.enter())
	if err := q.sendable("receive", commands); err != nil {
		return nil, err
	}
	c := &completion{dst: dst, hostPage: max(1, len(dst)), devPage: max(1, len(dst)), read: &read{}}
	q.comp.push(c)
	q.history.last.Store(&opRaw)
	if err := q.sendLocked(ctx, commands, false); err != nil {
		q.comp.takeBack(c)
		return nil, err
	}
	return c, nil
}

func (q *Queue) sendable(op string, commands []byte) error {
	if err := q.usable(op); err != nil {
		return err
	}
	if n := len(commands); n == 0 || n > memmap.MaxCommandSize || n%q.d.layout().PCIeAlign() != 0 {
		return q.errorf("%s %d B of commands: give a multiple of %d B, at most %d B", op, n,
			q.d.layout().PCIeAlign(), memmap.MaxCommandSize)
	}
	return nil
}

// SetState sets the state of the workers and their completion count after raw commands.
func (q *Queue) SetState(st State) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shared {
		q.forceAcquireLocked()
	}
	q.stream.lanes[0].state, q.stream.lastPrepared = st, nil
}

// Cores returns the logical coordinates of the queue's prefetch core and dispatch core.
func (q *Queue) Cores() (prefetch, dispatch chip.Core) { return q.tiles.prefetch, q.tiles.dispatch }

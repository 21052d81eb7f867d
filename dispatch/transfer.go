package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// Interleaved is a buffer whose pages are distributed over the banks: page p lies in bank p mod
// Banks, at Addr + p/Banks*PageSize.
type Interleaved struct {
	DRAM     bool
	Addr     uint32 // the same in every bank
	PageSize uint32 // from page to page in a bank
	HostPage uint32 // of data
	Pages    int
	Banks    int
}

// Bytes returns the size of the data.
func (b *Interleaved) Bytes() int { return b.Pages * int(b.HostPage) }

// for hang reports; constants have no address
var opWrite, opRead = "write", "read"

// TransferError: a transfer doesn't fit its buffer.
type TransferError struct {
	Op           string // "write" or "read"
	Offset, Size int    // bytes asked for
	Have         int    // bytes of the buffer
	Page         int    // bytes that Offset and Size must be multiples of, if not 0
}

func (e *TransferError) Error() string {
	if e.Page == 0 {
		return fmt.Sprintf("dispatch: %s of %d B at offset %d: the buffer holds %d B: stay inside", e.Op, e.Size, e.Offset, e.Have)
	}
	return fmt.Sprintf("dispatch: %s of %d B at offset %d: the buffer holds %d B in pages of %d B: stay inside and on page boundaries", e.Op,
		e.Size, e.Offset, e.Have, e.Page)
}

func (b *Interleaved) check(op string, off, n int) error {
	if off < 0 || n < 0 || off > b.Bytes() || n > b.Bytes()-off || off%int(b.HostPage) != 0 || n%int(b.HostPage) != 0 {
		return &TransferError{Op: op, Offset: off, Size: n, Have: b.Bytes(), Page: int(b.HostPage)}
	}
	return nil
}

func (b *Interleaved) at(page int) (bank int, addr uint32) {
	return page % b.Banks, b.Addr + uint32(page/b.Banks)*b.PageSize
}

// Write writes whole pages to the buffer from byte off on. It returns once data is copied into the
// issue ring.
func (q *Queue) Write(ctx context.Context, b *Interleaved, off int, data []byte) error {
	return q.write(ctx, b, off, data, false)
}

// WriteSettled is Write of some data, after which later commands wait, already in the prefetcher,
// for the workers and all writes. A trace, and data that a program's commands relay from DRAM, have
// to be settled before use. It is one batch of commands if that holds all data.
func (q *Queue) WriteSettled(ctx context.Context, b *Interleaved, off int, data []byte) error {
	return q.write(ctx, b, off, data, true)
}

func (q *Queue) write(ctx context.Context, b *Interleaved, off int, data []byte, settle bool) (err error) {
	if err := b.check("write", off, len(data)); err != nil {
		return err
	}
	defer q.leave(&err, q.enter())
	if err := q.usable("write"); err != nil {
		return err
	}
	page := off / int(b.HostPage)
	wait := true // until the workers have stopped using the buffer
	for len(data) > 0 {
		n, err := q.writeSomeLocked(ctx, b, page, data, wait, settle)
		if err != nil {
			return err
		}
		page += n
		data = data[n*int(b.HostPage):]
		wait = false
	}
	q.history.last.Store(&opWrite)
	return nil
}

// writeSomeLocked writes as many whole pages as one batch holds, or one page in several batches.
func (q *Queue) writeSomeLocked(ctx context.Context, b *Interleaved, page int, data []byte, wait, settle bool) (int, error) {
	l := q.d.layout()
	budget := uint32(memmap.MaxCommandSize - 2*l.PCIeAlign() - cq.HeaderSize*2)
	if settle {
		budget -= uint32(q.settleBytesLocked())
	}
	if b.PageSize <= budget {
		n := min(int(budget/b.PageSize), len(data)/int(b.HostPage))
		return n, q.writePagesLocked(ctx, b, page, n, data[:n*int(b.HostPage)], wait, settle && n*int(b.HostPage) == len(data))
	}
	part := int(budget) &^ (memmap.PageSize - 1)
	for off := 0; off < int(b.HostPage); off += part {
		n := min(part, int(b.HostPage)-off)
		bank, addr := b.at(page)
		// One page of just this part, in the same bank: not a byte after the page is written.
		size := min(uint32(l.Stride(n)), b.PageSize-uint32(off))
		piece := Interleaved{DRAM: b.DRAM, Addr: addr + uint32(off), PageSize: size, HostPage: uint32(n), Pages: bank + 1, Banks: b.Banks}
		last := off+n == int(b.HostPage) && off+n == len(data)
		if err := q.writePagesLocked(ctx, &piece, bank, 1, data[off:off+n], wait && off == 0, settle && last); err != nil {
			return 0, err
		}
	}
	return 1, nil
}

func (q *Queue) writePagesLocked(ctx context.Context, b *Interleaved, page, n int, data []byte, wait, settle bool) error {
	l := q.d.layout()
	size := l.Stride(2*cq.HeaderSize + n*int(b.PageSize))
	if wait {
		size += q.stream.stall.count() * l.Stride(2*cq.HeaderSize)
	}
	if settle {
		size += q.settleBytesLocked()
	}
	off, err := q.roomLocked(ctx, uint32(size))
	if err != nil {
		return err
	}
	cmds := cq.NewBuilder(l, q.rings.issue.mem[off:off:int(off)+size])
	if wait {
		q.appendWaitLocked(&cmds)
	}
	bank, addr := b.at(page)
	w := cq.WritePaged{DRAM: b.DRAM, StartPage: uint16(bank), Base: addr, PageSize: b.PageSize, Pages: uint32(n)}
	if b.HostPage == b.PageSize {
		w.Data = data
	}
	at := cmds.WritePaged(w)
	if settle {
		q.appendSettleLocked(&cmds)
	}
	out, err := cmds.Finish()
	if err != nil || len(out) != size {
		return q.fail(q.errorf("write: %d B of commands instead of %d: %w", len(out), size, err))
	}
	if b.HostPage != b.PageSize {
		dst := out[at+cq.AtWriteHostData:]
		for i := range n {
			copy(dst[i*int(b.PageSize):], data[i*int(b.HostPage):(i+1)*int(b.HostPage)])
		}
	}
	q.publishLocked(off, uint32(size), false)
	return nil
}

func (q *Queue) settleBytesLocked() int {
	l := q.d.layout()
	return q.stream.stall.count()*l.Stride(2*cq.HeaderSize) + l.Stride(cq.HeaderSize)
}

// appendWaitLocked makes the dispatcher wait for the programs so far.
func (q *Queue) appendWaitLocked(b *cq.Builder) {
	q.waitLocked(b, q.stream.stall, func(w cq.Wait) { b.Wait(cq.Master, w) })
}

// appendSettleLocked is appendWaitLocked for the prefetcher as well.
func (q *Queue) appendSettleLocked(b *cq.Builder) {
	q.waitLocked(b, q.stream.stall, func(w cq.Wait) { b.WaitStall(w) })
}

// Read reads whole pages of the buffer from byte off on into dst, and waits for the data.
func (q *Queue) Read(ctx context.Context, b *Interleaved, off int, dst []byte) error {
	p, err := q.StartRead(ctx, b, off, dst)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// Pending is a read in a queue. Its methods may be called from any goroutine.
type Pending struct {
	q    *Queue
	read read
	last *completion // nil if there was nothing to read
	own  completion  // last, of a Report
}

// StartRead is Read without waiting. dst belongs to the read until Wait has returned, Done has
// returned true, or Abandon was called.
func (q *Queue) StartRead(ctx context.Context, b *Interleaved, off int, dst []byte) (*Pending, error) {
	if err := b.check("read", off, len(dst)); err != nil {
		return nil, err
	}
	p := &Pending{q: q}
	if len(dst) == 0 {
		return p, nil
	}
	var err error
	if p.last, err = q.enqueueRead(ctx, b, off/int(b.HostPage), dst, &p.read); err != nil {
		p.Abandon()
		return nil, err
	}
	return p, nil
}

// Wait waits for the data.
func (p *Pending) Wait(ctx context.Context) error {
	if p.last == nil {
		return nil
	}
	if err := p.q.awaitReport(ctx, "data of a read", p.last); err != nil {
		p.Abandon()
		return err
	}
	return p.given()
}

// ErrAbandoned is returned for a read after Abandon, or after a Wait that failed.
var ErrAbandoned = errors.New("the read was given up")

func (p *Pending) given() error {
	if p.read.isAbandoned(&p.q.comp) {
		return p.q.errorf("data of a read: %w", ErrAbandoned)
	}
	return nil
}

// Done reports whether all data are in dst, without waiting.
func (p *Pending) Done() (bool, error) {
	if p.last == nil {
		return true, nil
	}
	done, err := p.q.reported(p.last)
	if !done || err != nil {
		return false, err
	}
	err = p.given()
	return err == nil, err
}

// Abandon returns dst to the caller: nothing is written to it any more. The read stays in the
// queue.
func (p *Pending) Abandon() { p.q.comp.abandon(&p.read) }

func (q *Queue) enqueueRead(ctx context.Context, b *Interleaved, page int, dst []byte, r *read) (done *completion, err error) {
	defer q.leave(&err, q.enter())
	if err := q.usable("read"); err != nil {
		return nil, err
	}
	// A record must fit the completion queue beside one that is being drained.
	perRecord := max(1, (len(q.comp.ring.mem)/4-memmap.PageSize)/int(b.PageSize))
	if int(b.PageSize) > len(q.comp.ring.mem)-memmap.PageSize {
		return nil, q.errorf("read: a page of %d B doesn't fit the completion queue of %d B: open the device with more queue memory", b.PageSize, len(q.comp.ring.mem))
	}
	var c *completion
	before := q.beforeLocked(q.stream.stall)
	for first := true; len(dst) > 0; first = false {
		n := min(perRecord, len(dst)/int(b.HostPage))
		c = &completion{dst: dst[:n*int(b.HostPage)], hostPage: int(b.HostPage), devPage: int(b.PageSize), read: r, before: before,
			entries: q.rings.fetch.put + 1}
		c.task, c.total = q.taskLocked()
		cmds := q.builderLocked()
		if first {
			q.appendSettleLocked(&cmds)
		}
		cmds.WriteHostHeader(cq.WriteHost{Pad1: uint16(q.id), Length: cq.HeaderSize + uint64(n)*uint64(b.PageSize)})
		bank, addr := b.at(page)
		cmds.RelayPaged(cq.RelayPaged{StartPage: uint8(bank), DRAM: b.DRAM, Base: addr, PageSize: b.PageSize, Pages: uint32(n)})
		q.comp.push(c)
		if err := q.sendBuiltLocked(ctx, "read", &cmds); err != nil {
			q.comp.takeBack(c)
			return nil, err
		}
		page += n
		dst = dst[n*int(b.HostPage):]
	}
	q.history.last.Store(&opRead)
	return c, nil
}

// Report completes p, which is new or whose Wait has succeeded, when everything so far in the queue
// has arrived in device memory and in pinned host memory.
func (q *Queue) Report(ctx context.Context, p *Pending) (err error) {
	defer q.leave(&err, q.enter())
	if err := q.usable("transfer"); err != nil {
		return err
	}
	cmds := q.builderLocked()
	cmds.Wait(cq.Master, cq.Wait{Flags: cq.WaitBarrier})
	return q.reportLocked(ctx, &cmds, p)
}

func (q *Queue) reportLocked(ctx context.Context, cmds *cq.Builder, p *Pending) error {
	cmds.WriteHost(cq.WriteHost{Pad1: uint16(q.id), Length: cq.HeaderSize})
	*p = Pending{q: q}
	p.own.hostPage, p.own.devPage, p.own.read = 1, 1, &p.read
	p.own.before, p.own.entries = q.tickLocked(), q.rings.fetch.put+1
	p.last = &p.own
	q.comp.push(p.last)
	if err := q.sendBuiltLocked(ctx, "transfer", cmds); err != nil {
		q.comp.takeBack(p.last)
		p.last = nil
		return err
	}
	q.tidyLocked()
	return nil
}

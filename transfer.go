package reprise

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/dispatch"
)

// Write writes data to a buffer, from byte off on, after everything so far in the queue has run. It returns once the data
// are copied; the device may still be busy. Any range inside the buffer will do, but whole pages are the fastest: memory is
// written in units of 16 to 64 bytes, and a unit that is only written in part is read first, which waits for the queue
// and must not race with anything else that writes to the same unit. If ctx ends while a long write waits for room, its
// first part is written; the queue goes on. The error is a *dispatch.TransferError if the range isn't inside.
func (q *Queue) Write(ctx context.Context, b *Buffer, off int, data []byte) (err error) {
	if q.d.watched() {
		defer q.d.begin(ctx, &Call{Kind: CallWrite, Queues: q.self, Name: b.label(), Object: b, Bytes: len(data)}).end(ctx, &err)
	}
	if err := q.checkTransfer(ctx, "write", opWrite, b); err != nil {
		return err
	}
	if err := b.write(ctx, q.q, off, data); err != nil {
		return q.d.failed(fmt.Sprintf("write buffer %q", b.name), err)
	}
	return nil
}

// Read reads from a buffer, from byte off on, after everything so far in the queue has run, and waits for the data. Any
// range inside the buffer will do. The error is a *dispatch.TransferError if it isn't inside.
func (q *Queue) Read(ctx context.Context, b *Buffer, off int, dst []byte) error {
	p, err := q.StartRead(ctx, b, off, dst)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// StartRead puts a Read into the queue and returns without waiting for the data. dst belongs to the read until Wait has
// returned, Done has reported true, or Abandon was called.
func (q *Queue) StartRead(ctx context.Context, b *Buffer, off int, dst []byte) (p *Pending, err error) {
	if q.d.watched() {
		defer q.d.begin(ctx, &Call{Kind: CallRead, Queues: q.self, Name: b.label(), Object: b, Bytes: len(dst)}).end(ctx, &err)
	}
	if err := q.checkTransfer(ctx, "read", opRead, b); err != nil {
		return nil, err
	}
	p = &Pending{b: b, q: q, n: len(dst)}
	if err := b.startRead(ctx, q.q, p, off, dst); err != nil {
		return nil, q.d.failed(fmt.Sprintf("read buffer %q", b.name), err)
	}
	return p, nil
}

// checkTransfer checks that the queue can transfer data of a buffer now.
func (q *Queue) checkTransfer(ctx context.Context, name string, op captureOp, b *Buffer) error {
	if err := q.d.usable(name); err != nil {
		return err
	}
	if err := b.checkDevice(q.d); err != nil {
		return fmt.Errorf("reprise: %s: %w", name, err)
	}
	return q.d.refuse(ctx, q, op, b.name)
}

// checkRange checks that a transfer stays inside the buffer.
func (b *Buffer) checkRange(op string, off, n int) error {
	if off < 0 || n < 0 || off > b.Size() || n > b.Size()-off {
		return &dispatch.TransferError{Op: op, Offset: off, Size: n, Have: b.Size()}
	}
	return nil
}

// write writes to the buffer through a queue.
func (b *Buffer) write(ctx context.Context, q *dispatch.Queue, off int, data []byte) error {
	if err := b.checkRange("write", off, len(data)); err != nil {
		return err
	}
	var gathered []byte
	return b.eachChunk(off, len(data), b.mostCopied(), func(c chunk) error {
		part := data[c.off-off:][:c.n]
		if c.inPage {
			return b.writeInPage(ctx, q, c.off, part)
		}
		if gaps := c.gathered(); gaps != 0 {
			page, stride := b.PageSize(), int(b.iv.PageSize)
			gathered = append(gathered[:0], make([]byte, gaps)...)
			for i := 0; i*page < len(part); i++ {
				copy(gathered[i*stride:], part[i*page:][:page])
			}
			part = gathered
		}
		return q.Write(ctx, &c.iv, c.at, part)
	})
}

// writeInPage writes to part of a page. Units of which only some bytes are to be written are read first.
func (b *Buffer) writeInPage(ctx context.Context, q *dispatch.Queue, off int, data []byte) error {
	unit := b.unit()
	for len(data) > 0 {
		n := len(data) &^ (unit - 1)
		before := off % b.PageSize() % unit // bytes of the unit before off
		if before == 0 && n > 0 {
			c := b.chunkInPage(off, n)
			if err := q.Write(ctx, &c.iv, c.at, data[:n]); err != nil {
				return err
			}
		} else {
			n = min(unit-before, len(data))
			c := b.chunkInPage(off-before, unit)
			whole := make([]byte, unit)
			if err := q.Read(ctx, &c.iv, c.at, whole); err != nil {
				return err
			}
			copy(whole[before:], data[:n])
			if err := q.Write(ctx, &c.iv, c.at, whole); err != nil {
				return err
			}
		}
		off, data = off+n, data[n:]
	}
	return nil
}

// read reads from the buffer through a queue, and waits for the data.
func (b *Buffer) read(ctx context.Context, q *dispatch.Queue, off int, dst []byte) error {
	p := &Pending{b: b}
	if err := b.startRead(ctx, q, p, off, dst); err != nil {
		return err
	}
	return p.wait(ctx)
}

// startRead starts a read of the buffer through a queue, as p. If it fails, it abandons p.
func (b *Buffer) startRead(ctx context.Context, q *dispatch.Queue, p *Pending, off int, dst []byte) error {
	if err := b.checkRange("read", off, len(dst)); err != nil {
		return err
	}
	if err := b.addReads(ctx, q, p, off, dst); err != nil {
		p.Abandon()
		return err
	}
	return nil
}

// addReads starts reads of a range of the buffer and adds them to a Pending.
func (b *Buffer) addReads(ctx context.Context, q *dispatch.Queue, into *Pending, off int, dst []byte) error {
	if len(dst) == 0 {
		return into.add(q.StartRead(ctx, &b.iv, 0, dst))
	}
	return b.eachChunk(off, len(dst), b.mostCopied(), func(c chunk) error {
		part := dst[c.off-off:][:c.n]
		to := part
		switch gaps := c.gathered(); {
		case c.inPage: // whole units of the page
			unit := b.unit()
			before := c.off % b.PageSize() % unit
			to = make([]byte, (before+c.n+unit-1)&^(unit-1))
			c = b.chunkInPage(c.off-before, len(to))
			into.spread = append(into.spread, spread{part, to[before:], len(part), 0})
		case gaps != 0:
			to = make([]byte, gaps)
			into.spread = append(into.spread, spread{part, to, b.PageSize(), int(b.iv.PageSize)})
		}
		return into.add(q.StartRead(ctx, &c.iv, c.at, to))
	})
}

// chunk is a part of a transfer that a queue moves as one. To the queue it is a range of an interleaved buffer.
type chunk struct {
	iv     dispatch.Interleaved
	at     int  // of the range in iv
	off, n int  // of the range in the buffer
	inPage bool // a range inside of one page, as small as a byte; otherwise whole pages
	run    bool // pages one after the other in a core of a sharded buffer, which iv has as one page
}

// gathered returns how many bytes a run of pages is to the queue, gaps between them included; 0 if it has no gaps.
func (c *chunk) gathered() int {
	if n := int(c.iv.HostPage); c.run && n != c.n {
		return n
	}
	return 0
}

// eachChunk cuts a range of the buffer into chunks, in order. A run of pages of a sharded buffer has at most mostPages.
func (b *Buffer) eachChunk(off, n, mostPages int, f func(chunk) error) error {
	page := b.PageSize()
	if rest := off % page; rest != 0 && n > 0 {
		head := min(page-rest, n)
		if err := f(b.chunkInPage(off, head)); err != nil {
			return err
		}
		off, n = off+head, n-head
	}
	tail := n % page
	if n -= tail; n > 0 {
		if err := b.eachRun(off, n, mostPages, f); err != nil {
			return err
		}
	}
	if tail > 0 {
		return f(b.chunkInPage(off+n, tail))
	}
	return nil
}

// eachRun cuts whole pages into chunks: one if the buffer is interleaved, otherwise runs of pages that lie one after the
// other in a core.
func (b *Buffer) eachRun(off, n, mostPages int, f func(chunk) error) error {
	page, stride := b.PageSize(), int(b.iv.PageSize)
	if b.dist == nil {
		return f(chunk{iv: b.iv, at: off + b.first*page, off: off, n: n})
	}
	for _, r := range b.dist.Runs(b.first+off/page, n/page) {
		for r.Pages > 0 {
			pages := min(r.Pages, mostPages)
			size := (pages-1)*stride + page
			c := b.chunkInBank(b.banks[r.Core], b.iv.Addr+uint32(r.Slot*stride), size)
			c.iv.PageSize = uint32(pages * stride)
			c.off, c.n, c.run = (r.Page-b.first)*page, pages*page, true
			if err := f(c); err != nil {
				return err
			}
			r.Page, r.Slot, r.Pages = r.Page+pages, r.Slot+pages, r.Pages-pages
		}
	}
	return nil
}

// eachPage cuts a range of the buffer into chunks of at most a page.
func (b *Buffer) eachPage(off, n int, f func(chunk) error) error {
	page := b.PageSize()
	for end := off + n; off < end; {
		c := b.chunkInPage(off, min(page-off%page, end-off))
		if err := f(c); err != nil {
			return err
		}
		off += c.n
	}
	return nil
}

// chunkInPage is a range inside of a page.
func (b *Buffer) chunkInPage(off, n int) chunk {
	place, _ := b.Page(off / b.PageSize())
	c := b.chunkInBank(place.Bank, place.Addr+uint32(off%b.PageSize()), n)
	c.off, c.n, c.inPage = off, n, true
	return c
}

// chunkInBank is n bytes of a bank: a page of an interleaved buffer that has a page in each bank up to this one.
func (b *Buffer) chunkInBank(bank int, addr uint32, n int) chunk {
	banks := b.d.disp.L1Banks()
	if b.iv.DRAM {
		banks = b.d.mem.Config().DRAMBanks
	}
	return chunk{
		iv: dispatch.Interleaved{DRAM: b.iv.DRAM, Addr: addr, PageSize: uint32(n), HostPage: uint32(n), Pages: bank + 1, Banks: banks},
		at: bank * n,
	}
}

// unit is what part of a page is copied in: a multiple of the alignment of reads and writes of the memory.
func (b *Buffer) unit() int {
	align := b.d.disp.Chip().Params().Align
	if b.iv.DRAM {
		return int(align.DRAM())
	}
	return int(align.L1)
}

// mostCopied returns how many pages of a sharded buffer the host copies as one.
func (b *Buffer) mostCopied() int {
	const most = 64 << 10 // bytes
	return max(1, most/int(b.iv.PageSize))
}

package dispatch

import (
	"context"
	"sync"
)

// Write writes data to the buffer through a queue, from byte off on, after everything so far in the queue has run. It
// returns once the data are copied. Of memory's units that are only written in part it reads the others' bytes first,
// and waits for them. The error is a *TransferError if the range isn't inside the buffer.
func (b *Buffer) Write(ctx context.Context, q *Queue, off int, data []byte) error {
	if err := b.check("write", off, len(data)); err != nil {
		return err
	}
	var gathered []byte
	return b.eachChunk(off, len(data), b.mostCopied(), func(c chunk) error {
		part := data[c.off-off:][:c.n]
		if c.inPage {
			return b.writeInPage(ctx, q, c.off, part)
		}
		if gaps := c.gathered(); gaps != 0 {
			page, stride := b.page(), int(b.Whole.PageSize)
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
func (b *Buffer) writeInPage(ctx context.Context, q *Queue, off int, data []byte) error {
	unit := b.unit(q)
	for len(data) > 0 {
		n := len(data) &^ (unit - 1)
		before := off % b.page() % unit // bytes of the unit before off
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

// StartRead puts a read of the buffer, from byte off on, into a queue, as t. dst belongs to the read until t is done or
// abandoned. If it fails, it abandons t. The error is a *TransferError if the range isn't inside the buffer.
func (b *Buffer) StartRead(ctx context.Context, q *Queue, t *Transfer, off int, dst []byte) error {
	if err := b.check("read", off, len(dst)); err != nil {
		return err
	}
	if err := b.addReads(ctx, q, t, off, dst); err != nil {
		t.Abandon()
		return err
	}
	return nil
}

// addReads starts reads of a range of the buffer and adds them to a transfer.
func (b *Buffer) addReads(ctx context.Context, q *Queue, into *Transfer, off int, dst []byte) error {
	if len(dst) == 0 {
		return into.add(q.StartRead(ctx, &b.Whole, 0, dst))
	}
	return b.eachChunk(off, len(dst), b.mostCopied(), func(c chunk) error {
		part := dst[c.off-off:][:c.n]
		to := part
		switch gaps := c.gathered(); {
		case c.inPage: // whole units of the page
			unit := b.unit(q)
			before := c.off % b.page() % unit
			to = make([]byte, (before+c.n+unit-1)&^(unit-1))
			c = b.chunkInPage(c.off-before, len(to))
			into.spread = append(into.spread, spread{part, to[before:], len(part), 0})
		case gaps != 0:
			to = make([]byte, gaps)
			into.spread = append(into.spread, spread{part, to, b.page(), int(b.Whole.PageSize)})
		}
		return into.add(q.StartRead(ctx, &c.iv, c.at, to))
	})
}

// unit returns the granularity, in bytes, in which parts of a page are copied: a multiple of the alignment of reads and
// writes of the memory.
func (b *Buffer) unit(q *Queue) int {
	if b.Whole.DRAM {
		return int(q.d.pr.Align.DRAM())
	}
	return int(q.d.pr.Align.L1)
}

// mostCopied returns how many pages of a sharded buffer the host copies as one.
func (b *Buffer) mostCopied() int {
	const most = 64 << 10 // bytes
	return max(1, most/int(b.Whole.PageSize))
}

// Transfer is a read of a Buffer, or a transfer between a Buffer and pinned host memory, in all its parts. The zero Transfer
// is there to be started, by StartRead or StartDirect. Once that has succeeded, Wait, Done and Abandon may be called from
// any goroutine.
type Transfer struct {
	last *Pending   // its last part, which arrives last
	more []*Pending // the earlier parts
	own  Pending    // last, of a transfer with pinned host memory

	mu        sync.Mutex
	spread    []spread // what has to be copied once all data have arrived
	abandoned bool
}

// spread is a part of a read that arrives elsewhere, because its pages have gaps on the device or are read in part.
type spread struct {
	dst, from    []byte
	page, stride int
}

// add adds a part to the transfer.
func (t *Transfer) add(part *Pending, err error) error {
	if err != nil {
		return err
	}
	if t.last != nil {
		t.more = append(t.more, t.last)
	}
	t.last = part
	return nil
}

// Wait waits for the data. When it fails, the transfer is abandoned.
func (t *Transfer) Wait(ctx context.Context) error {
	if err := t.last.Wait(ctx); err != nil {
		t.Abandon()
		return err
	}
	t.arrange()
	return nil
}

// Done reports whether all data have arrived, without waiting.
func (t *Transfer) Done() (bool, error) {
	done, err := t.last.Done()
	if done {
		t.arrange()
	}
	return done, err
}

// arrange copies data that arrived elsewhere to where they belong, once.
func (t *Transfer) arrange() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		return
	}
	for _, s := range t.spread {
		for i := 0; i < len(s.dst); i += s.page {
			copy(s.dst[i:i+s.page], s.from[i/s.page*s.stride:])
		}
	}
	t.spread = nil
}

// Abandon returns the memory that is read into to the caller: nothing is written to it any more, unless it is pinned. The
// transfer itself stays in the queue.
func (t *Transfer) Abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abandoned = true
	for _, part := range t.more {
		part.Abandon()
	}
	if t.last != nil {
		t.last.Abandon()
	}
}

// Reset prepares t to be started again, after its Wait has succeeded.
func (t *Transfer) Reset() {
	clear(t.more)
	t.last, t.more, t.spread, t.abandoned = nil, t.more[:0], nil, false
}

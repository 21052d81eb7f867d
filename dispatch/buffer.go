package dispatch

import (
	"context"
	"fmt"
	"math"
	"sync"
)

// Buffer is device memory in pages: interleaved, sharded, or pages of either.
type Buffer struct {
	Whole    Interleaved // of a sharded buffer only the page sizes, and the address in each core's bank
	Sharding Sharding    // nil if interleaved
	Banks    []int
	First    int // page of Whole or of the sharding that is page 0
	Pages    int
}

// Sharding says where the pages of a sharded buffer lie.
type Sharding interface {
	// Page returns the core of page i, and which of the core's pages it is.
	Page(i int) (core, slot int)
}

// Size returns the buffer's size in bytes.
func (b *Buffer) Size() int { return b.Pages * b.page() }

func (b *Buffer) page() int { return int(b.Whole.HostPage) }

// Page returns the bank of page i and its address there.
func (b *Buffer) Page(i int) (bank int, addr uint32) {
	if b.Sharding == nil {
		return b.Whole.at(b.First + i)
	}
	core, slot := b.Sharding.Page(b.First + i)
	return b.Banks[core], b.Whole.Addr + uint32(slot)*b.Whole.PageSize
}

func (b *Buffer) check(op string, off, n int) error {
	if off < 0 || n < 0 || off > b.Size() || n > b.Size()-off {
		return &TransferError{Op: op, Offset: off, Size: n, Have: b.Size()}
	}
	return nil
}

// chunk is a range of an interleaved buffer that a queue moves at once.
type chunk struct {
	iv     Interleaved
	at     int  // in iv
	off, n int  // in the buffer
	inPage bool // inside one page, to the byte; otherwise whole pages
	run    bool // adjacent pages in a core of a sharded buffer, one page of iv
}

// gathered returns the bytes of a run of pages with gaps; 0 without gaps.
func (c *chunk) gathered() int {
	if n := int(c.iv.HostPage); c.run && n != c.n {
		return n
	}
	return 0
}

// eachChunk cuts a range of the buffer into chunks, in order.
func (b *Buffer) eachChunk(off, n, mostPages int, f func(chunk) error) error {
	page := b.page()
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

func (b *Buffer) eachRun(off, n, mostPages int, f func(chunk) error) error {
	page, stride := b.page(), int(b.Whole.PageSize)
	if b.Sharding == nil {
		return f(chunk{iv: b.Whole, at: off + b.First*page, off: off, n: n})
	}
	first, end := off/page, (off+n)/page
	bank, addr := b.Page(first)
	for first < end {
		pages, nextBank, nextAddr := 1, 0, uint32(0)
		for ; first+pages < end; pages++ {
			nextBank, nextAddr = b.Page(first + pages)
			if pages == mostPages || nextBank != bank || nextAddr != addr+uint32(pages*stride) {
				break
			}
		}
		c := chunkInBank(b.Whole.DRAM, bank, addr, (pages-1)*stride+page)
		c.iv.PageSize = uint32(pages * stride)
		c.off, c.n, c.run = first*page, pages*page, true
		if err := f(c); err != nil {
			return err
		}
		first, bank, addr = first+pages, nextBank, nextAddr
	}
	return nil
}

func (b *Buffer) eachPage(off, n int, f func(chunk) error) error {
	page := b.page()
	for end := off + n; off < end; {
		c := b.chunkInPage(off, min(page-off%page, end-off))
		if err := f(c); err != nil {
			return err
		}
		off += c.n
	}
	return nil
}

func (b *Buffer) chunkInPage(off, n int) chunk {
	bank, addr := b.Page(off / b.page())
	c := chunkInBank(b.Whole.DRAM, bank, addr+uint32(off%b.page()), n)
	c.off, c.n, c.inPage = off, n, true
	return c
}

// chunkInBank is n bytes of a bank, as the last page of an interleaved buffer with one page per
// bank.
func chunkInBank(dram bool, bank int, addr uint32, n int) chunk {
	return chunk{
		iv: Interleaved{DRAM: dram, Addr: addr, PageSize: uint32(n), HostPage: uint32(n), Pages: bank + 1, Banks: bank + 1},
		at: bank * n,
	}
}

// Write writes data to the buffer from byte off on, after everything so far in the queue, and
// returns once they are copied. Where data cover a memory unit in part, it waits to read the unit
// first. The error may be a *TransferError.
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

func (b *Buffer) writeInPage(ctx context.Context, q *Queue, off int, data []byte) error {
	unit := b.unit(q)
	for len(data) > 0 {
		n := len(data) &^ (unit - 1)
		before := off % b.page() % unit
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

// StartRead puts a read of the buffer from byte off on into a queue, as t. dst belongs to the read
// until t is done or abandoned. If it fails, it abandons t. The error may be a *TransferError.
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

func (b *Buffer) addReads(ctx context.Context, q *Queue, into *Transfer, off int, dst []byte) error {
	if len(dst) == 0 {
		return into.add(q.StartRead(ctx, &b.Whole, 0, dst))
	}
	return b.eachChunk(off, len(dst), b.mostCopied(), func(c chunk) error {
		part := dst[c.off-off:][:c.n]
		to := part
		switch gaps := c.gathered(); {
		case c.inPage:
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

// unit is the granularity in bytes of copies inside a page.
func (b *Buffer) unit(q *Queue) int {
	if b.Whole.DRAM {
		return int(q.d.pr.Align.DRAM())
	}
	return int(q.d.pr.Align.L1)
}

func (b *Buffer) mostCopied() int {
	const most = 64 << 10
	return max(1, most/int(b.Whole.PageSize))
}

// Transfer is a read of a Buffer, or a transfer with pinned host memory. StartRead or StartDirect
// starts the zero Transfer; then its methods may be called from any goroutine.
type Transfer struct {
	last *Pending
	more []*Pending // earlier parts
	own  Pending    // last, of a Direct

	mu        sync.Mutex
	spread    []spread // to copy once all data have arrived
	abandoned bool
}

// spread is a part of a read in a bounce buffer: its pages have gaps or are read in part.
type spread struct {
	dst, from    []byte
	page, stride int
}

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

// Wait waits for the data. A failure abandons the transfer.
func (t *Transfer) Wait(ctx context.Context) error {
	if err := t.last.Wait(ctx); err != nil {
		t.Abandon()
		return err
	}
	t.arrange()
	return nil
}

// Done reports whether all data have arrived.
func (t *Transfer) Done() (bool, error) {
	done, err := t.last.Done()
	if done {
		t.arrange()
	}
	return done, err
}

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

// Abandon returns the read's memory to the caller: nothing is written to it any more unless it is
// pinned.
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

// Reset prepares t to be started again after a Wait that succeeded.
func (t *Transfer) Reset() {
	clear(t.more)
	t.last, t.more, t.spread, t.abandoned = nil, t.more[:0], nil, false
}

// Direct is a transfer between a Buffer and pinned host memory. The device moves the data from the
// first multiple of DirectAlign on, if both addresses are equal modulo DirectAlign. The host copies
// the rest, and pages below DirectMin with gaps between them.
type Direct struct {
	Read   bool // from the buffer
	Offset int  // in the buffer
	Host   *HostBuffer
	At     int  // in the host memory
	Size   int  // bytes
	Strict bool // fail with a *DirectError, before anything is moved, where a copy is needed
}

func (d *Direct) op() string {
	if d.Read {
		return "read"
	}
	return "write"
}

// DirectError is returned when a strict Direct would need a copy of a part.
type DirectError struct {
	Op     string // "read" or "write"
	Offset int    // in the buffer
	At     int    // in the host memory
	Size   int
}

func (e *DirectError) Error() string {
	return fmt.Sprintf("%s of %d B at offset %d to or from offset %d of the host buffer without a copy: the place on the device and the place in host memory must be equal modulo %d, the NoC's unit: move one of them, or use a HostBuffer that isn't strict", e.Op, e.Size, e.Offset, e.At, DirectAlign)
}

// StartDirect starts t, a transfer with memory that stays pinned meanwhile. If it fails, it
// abandons t; the device may still move parts until the queue has finished. The error may be a
// *TransferError.
func (b *Buffer) StartDirect(ctx context.Context, q *Queue, t *Transfer, d Direct) error {
	p := direct{Direct: d, ctx: ctx, q: q, b: *b, t: t}
	err := p.put()
	if err != nil {
		t.Abandon()
	}
	return err
}

type direct struct {
	Direct
	ctx context.Context
	q   *Queue
	b   Buffer
	t   *Transfer

	dry      bool
	used     bool // a part needed no copy
	reported bool
}

func (d *direct) put() error {
	if err := d.b.check(d.op(), d.Offset, d.Size); err != nil {
		return err
	}
	if err := d.Host.check(d.At, d.Size); err != nil {
		return err
	}
	if d.Strict {
		d.dry = true
		if err := d.move(); err != nil {
			return err
		}
		d.dry = false
	}
	if err := d.move(); err != nil {
		return err
	}
	switch {
	case d.reported:
		return d.t.add(&d.t.own, nil)
	case d.used || d.t.last == nil:
		return d.t.add(&d.t.own, d.q.Report(d.ctx, &d.t.own))
	}
	return nil
}

// move has the host copy small pages with gaps, since each would need commands of its own.
func (d *direct) move() error {
	gaps := d.b.Whole.PageSize != d.b.Whole.HostPage
	if gaps && (d.Strict || d.b.page() >= DirectMin) {
		return d.b.eachPage(d.Offset, d.Size, d.moveDirectly)
	}
	return d.b.eachChunk(d.Offset, d.Size, math.MaxInt, func(c chunk) error {
		if gaps && !c.inPage {
			return d.copy(c.off, c.n)
		}
		return d.moveDirectly(c)
	})
}

func (d *direct) host(off int) int { return off - d.Offset + d.At }

func (d *direct) moveDirectly(c chunk) error {
	const unit = DirectAlign
	start, at := int(c.iv.Addr)%unit, d.host(c.off)
	if start != at%unit {
		return d.copy(c.off, c.n)
	}
	from, n := c.at, c.n
	if head := min((unit-start)%unit, n); head > 0 {
		if err := d.copy(c.off, head); err != nil {
			return err
		}
		from, at, n = from+head, at+head, n-head
	}
	if n == 0 || d.dry {
		return nil
	}
	first := !d.used
	d.used = true
	if !d.Read {
		return d.q.WriteDirect(d.ctx, &c.iv, from, d.Host, at, n, first)
	}
	var report *Pending
	if c.off+c.n == d.Offset+d.Size {
		report, d.reported = &d.t.own, true
	}
	return d.q.ReadDirect(d.ctx, &c.iv, from, d.Host, at, n, first, report)
}

func (d *direct) copy(off, n int) error {
	at := d.host(off)
	if d.dry {
		return &DirectError{Op: d.op(), Offset: off, At: at, Size: n}
	}
	mem := d.Host.Bytes()[at:][:n]
	if d.Read {
		return d.b.addReads(d.ctx, d.q, d.t, off, mem)
	}
	return d.b.Write(d.ctx, d.q, off, mem)
}

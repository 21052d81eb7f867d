package dispatch

import (
	"context"
	"fmt"
	"math"
)

// Direct is a transfer between a Buffer and pinned host memory. The device moves the data itself where it can: where the
// place on the device and the place in host memory are equal modulo DirectAlign, from the first multiple of it on. The
// host copies the rest, and pages below DirectMin that have gaps between them on the device.
type Direct struct {
	Read   bool // from the buffer to host memory
	Offset int  // in the buffer
	Host   *HostBuffer
	At     int  // in the host memory
	Size   int  // bytes
	Strict bool // fail with a *DirectError, before anything is moved, where the addresses need a copy
}

func (d *Direct) op() string {
	if d.Read {
		return "read"
	}
	return "write"
}

// DirectError is returned when a strict transfer with pinned host memory would need a copy: it names the part.
type DirectError struct {
	Op     string // "read" or "write"
	Offset int    // in the device's buffer, of the part
	At     int    // in the host buffer
	Size   int    // of the part
}

// Error implements error.
func (e *DirectError) Error() string {
	return fmt.Sprintf("%s of %d B at offset %d to or from offset %d of the host buffer without a copy: the place on the device and the place in host memory must be equal modulo %d, the NoC's unit: move one of them, or use a HostBuffer that isn't strict", e.Op, e.Size, e.Offset, e.At, DirectAlign)
}

// StartDirect puts a transfer with pinned host memory, which has to stay pinned meanwhile, into a queue, as t. If it fails,
// it abandons t; the device may still move parts of it until the queue was finished. The error is a *TransferError if a
// range isn't inside the buffer or the host memory.
func (b *Buffer) StartDirect(ctx context.Context, q *Queue, t *Transfer, d Direct) error {
	p := direct{Direct: d, ctx: ctx, q: q, b: *b, t: t}
	err := p.put()
	if err != nil {
		t.Abandon()
	}
	return err
}

// direct is a Direct that is put into a queue.
type direct struct {
	Direct
	ctx context.Context
	q   *Queue
	b   Buffer // a copy: the compiler moves to the heap what is pointed to from here
	t   *Transfer

	dry      bool // only check that nothing needs a copy
	used     bool // a part needed no copy
	reported bool // the queue will report the end of the transfer
}

// put puts the whole transfer into the queue.
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
	case d.used || d.t.last == nil: // else the last part that the host copies reports it
		return d.t.add(&d.t.own, d.q.Report(d.ctx, &d.t.own))
	}
	return nil
}

// move moves all parts. Small pages with gaps between them are copied as a whole, since each would take commands of its
// own.
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

// host returns where a byte of the buffer belongs in host memory.
func (d *direct) host(off int) int { return off - d.Offset + d.At }

// moveDirectly moves a chunk without a copy, except for the bytes before the first multiple of the NoC's unit, if the
// addresses on the device and in host memory are equal modulo that unit. Otherwise it copies the chunk.
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

// copy has the host copy n bytes from byte off of the buffer on, by way of the queue's own memory.
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

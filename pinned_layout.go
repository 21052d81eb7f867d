package reprise

import (
	"context"

	"github.com/reprise-tt/reprise/dispatch"
)

// direct is a transfer between a buffer and pinned host memory.
type direct struct {
	ctx  context.Context
	q    *dispatch.Queue
	b    *Buffer
	h    *HostBuffer
	p    *Pending
	read bool
	at   int // what turns an offset in the buffer into one in the host memory

	end  int  // of the transfer in the buffer
	dry  bool // only looks whether all can do without a copy
	used bool // a part did without
	told bool // the end of the transfer will be reported
}

// run moves n bytes from byte off of the buffer on.
func (t *direct) run(off, n int) error {
	b, page := t.b, t.b.PageSize()
	front, whole, behind := b.cut(off, n)
	if front > 0 {
		if err := t.part(off, front); err != nil {
			return err
		}
		off += front
	}
	if whole > 0 {
		if err := t.pages(off, whole, page); err != nil {
			return err
		}
		off += whole
	}
	if behind > 0 {
		return t.part(off, behind)
	}
	return nil
}

// pages moves whole pages.
func (t *direct) pages(off, n, page int) error {
	b := t.b
	switch gaps := int(b.iv.PageSize) != page; {
	case gaps && page < dispatch.DirectMin && !t.h.strict:
		return t.copied(off, n)
	case gaps:
		for end := off + n; off < end; off += page {
			if err := t.part(off, page); err != nil {
				return err
			}
		}
		return nil
	case b.dist == nil:
		return t.stretch(&b.iv, off+b.first*page, off, n)
	}
	first := b.first + off/page
	for _, r := range b.dist.Runs(first, n/page) {
		// To the queue the pages that lie behind each other in a core are one page.
		bank, bytes := b.banks[r.Core], r.Pages*page
		iv := dispatch.Interleaved{
			DRAM: b.iv.DRAM, Addr: b.iv.Addr + uint32(r.Slot*page), PageSize: uint32(bytes), HostPage: uint32(bytes), Pages: bank + 1, Banks: b.banksOfKind(),
		}
		if err := t.stretch(&iv, bank*bytes, off+(r.Page-first)*page, bytes); err != nil {
			return err
		}
	}
	return nil
}

// part moves bytes of one page.
func (t *direct) part(off, n int) error {
	page := t.b.PageSize()
	iv, at := t.b.window(off/page, off%page, n)
	return t.stretch(&iv, at, off, n)
}

// stretch moves n bytes from byte off of the buffer on, which the queue knows as those from byte from of iv on.
func (t *direct) stretch(iv *dispatch.Interleaved, from, off, n int) error {
	const unit = dispatch.DirectAlign
	start, at := int(iv.Addr)%unit, off+t.at
	if start != at%unit {
		return t.copied(off, n)
	}
	if head := min((unit-start)%unit, n); head > 0 {
		if err := t.copied(off, head); err != nil {
			return err
		}
		from, at, n = from+head, at+head, n-head
	}
	if n == 0 || t.dry {
		return nil
	}
	first := !t.used
	t.used = true
	if t.read {
		var report *dispatch.Pending
		if off+n == t.end {
			report, t.told = &t.p.direct, true
		}
		return t.q.ReadDirect(t.ctx, iv, from, t.h.h, at, n, first, report)
	}
	return t.q.WriteDirect(t.ctx, iv, from, t.h.h, at, n, first)
}

// copied moves bytes by way of the queue's own memory.
func (t *direct) copied(off, n int) error {
	at := off + t.at
	if t.dry {
		op := "write"
		if t.read {
			op = "read"
		}
		return &DirectError{Op: op, Offset: off, At: at, Size: n}
	}
	mem := t.h.mem[at : at+n]
	if t.read {
		return t.b.readInto(t.ctx, t.q, t.p, off, mem)
	}
	return t.b.write(t.ctx, t.q, off, mem)
}

package reprise

import (
	"context"

	"github.com/reprise-tt/reprise/dispatch"
)

// mostGathered bounds what a transfer of a sharded buffer copies together.
const mostGathered = 64 << 10

// check says whether a transfer stays inside the buffer.
func (b *Buffer) check(op string, off, n int) error {
	if off < 0 || n < 0 || off > b.Size() || n > b.Size()-off {
		return &TransferError{Op: op, Offset: off, Size: n, Have: b.Size()}
	}
	return nil
}

// cut divides a transfer into the part of a page in front, whole pages, and the part of a page behind.
func (b *Buffer) cut(off, n int) (front, whole, behind int) {
	page := b.PageSize()
	if rest := off % page; rest != 0 {
		front = min(page-rest, n)
	}
	behind = (n - front) % page
	return front, n - front - behind, behind
}

// unit is what part of a page is moved in: a multiple of what reading and writing the memory is aligned to.
func (b *Buffer) unit() int {
	align := b.d.disp.Chip().Params().Align
	if b.iv.DRAM {
		return int(align.DRAM())
	}
	return int(align.L1)
}

// window is a piece of a page as the only page of an interleaved buffer that a bank has; at is the offset for transfers.
func (b *Buffer) window(page, from, n int) (iv dispatch.Interleaved, at int) {
	place, _ := b.Page(page)
	return dispatch.Interleaved{
		DRAM: b.iv.DRAM, Addr: place.Addr + uint32(from), PageSize: uint32(n), HostPage: uint32(n), Pages: place.Bank + 1, Banks: b.banksOfKind(),
	}, place.Bank * n
}

// banksOfKind returns how many banks the buffer's kind of memory has.
func (b *Buffer) banksOfKind() int {
	if b.iv.DRAM {
		return b.d.mem.Config().DRAMBanks
	}
	return b.d.disp.L1Banks()
}

// writePart writes to part of a page. Units of which only some bytes are to be written are read first.
func (b *Buffer) writePart(ctx context.Context, q *dispatch.Queue, off int, data []byte) error {
	page, from, unit := off/b.PageSize(), off%b.PageSize(), b.unit()
	for len(data) > 0 {
		n := len(data) &^ (unit - 1)
		if rest := from % unit; rest != 0 || n == 0 {
			n = min(unit-rest, len(data))
			iv, at := b.window(page, from-rest, unit)
			whole := make([]byte, unit)
			if err := q.Read(ctx, &iv, at, whole); err != nil {
				return err
			}
			copy(whole[rest:], data[:n])
			if err := q.Write(ctx, &iv, at, whole); err != nil {
				return err
			}
		} else {
			iv, at := b.window(page, from, n)
			if err := q.Write(ctx, &iv, at, data[:n]); err != nil {
				return err
			}
		}
		from, data = from+n, data[n:]
	}
	return nil
}

// readPart starts to read part of a page.
func (b *Buffer) readPart(ctx context.Context, q *dispatch.Queue, p *Pending, off int, dst []byte) error {
	if len(dst) == 0 {
		return nil
	}
	from, unit := off%b.PageSize(), b.unit()
	low := from &^ (unit - 1)
	to := make([]byte, (from+len(dst)+unit-1)&^(unit-1)-low)
	iv, at := b.window(off/b.PageSize(), low, len(to))
	p.spread = append(p.spread, spread{dst, to[from-low:], len(dst), 0})
	return p.add(q.StartRead(ctx, &iv, at, to))
}

// write writes to the buffer through a queue, whatever its layout.
func (b *Buffer) write(ctx context.Context, q *dispatch.Queue, off int, data []byte) error {
	if err := b.check("write", off, len(data)); err != nil {
		return err
	}
	front, whole, behind := b.cut(off, len(data))
	if front > 0 {
		if err := b.writePart(ctx, q, off, data[:front]); err != nil {
			return err
		}
	}
	if whole > 0 {
		if err := b.writePages(ctx, q, off+front, data[front:front+whole]); err != nil {
			return err
		}
	}
	if behind > 0 {
		return b.writePart(ctx, q, off+front+whole, data[front+whole:])
	}
	return nil
}

// writePages writes whole pages.
func (b *Buffer) writePages(ctx context.Context, q *dispatch.Queue, off int, data []byte) error {
	if b.dist == nil {
		return q.Write(ctx, &b.iv, off+b.first*b.PageSize(), data)
	}
	page, stride := b.PageSize(), int(b.iv.PageSize)
	var gather []byte
	return b.eachRun(off, len(data), func(iv *dispatch.Interleaved, at, from, n int) error {
		part := data[from*page : (from+n)*page]
		if page != stride && n > 1 {
			gather = append(gather[:0], make([]byte, (n-1)*stride+page)...)
			for i := range n {
				copy(gather[i*stride:], part[i*page:(i+1)*page])
			}
			part = gather
		}
		return q.Write(ctx, iv, at, part)
	})
}

// read reads from the buffer through a queue, whatever its layout.
func (b *Buffer) read(ctx context.Context, q *dispatch.Queue, off int, dst []byte) error {
	p, err := b.startRead(ctx, q, off, dst)
	if err != nil {
		return err
	}
	return p.wait(ctx)
}

// startRead starts a read of the buffer, whatever its layout.
func (b *Buffer) startRead(ctx context.Context, q *dispatch.Queue, off int, dst []byte) (*Pending, error) {
	if err := b.check("read", off, len(dst)); err != nil {
		return nil, err
	}
	p := &Pending{b: b}
	if err := b.readInto(ctx, q, p, off, dst); err != nil {
		p.Abandon()
		return nil, err
	}
	return p, nil
}

// readInto adds the parts of a read to p.
func (b *Buffer) readInto(ctx context.Context, q *dispatch.Queue, p *Pending, off int, dst []byte) error {
	front, whole, _ := b.cut(off, len(dst))
	err := b.readPart(ctx, q, p, off, dst[:front])
	if err == nil && (whole > 0 || len(dst) == 0) {
		err = b.readPages(ctx, q, p, off+front, dst[front:front+whole])
	}
	if err == nil {
		err = b.readPart(ctx, q, p, off+front+whole, dst[front+whole:])
	}
	return err
}

// readPages starts to read whole pages.
func (b *Buffer) readPages(ctx context.Context, q *dispatch.Queue, p *Pending, off int, dst []byte) error {
	if b.dist == nil || len(dst) == 0 {
		iv := b.iv
		if b.dist != nil {
			iv.Pages, off = 1, 0 // nothing to read
		}
		return p.add(q.StartRead(ctx, &iv, off+b.first*b.PageSize(), dst))
	}
	page, stride := b.PageSize(), int(b.iv.PageSize)
	return b.eachRun(off, len(dst), func(iv *dispatch.Interleaved, at, from, n int) error {
		part := dst[from*page : (from+n)*page]
		to := part
		if page != stride && n > 1 {
			to = make([]byte, (n-1)*stride+page)
			p.spread = append(p.spread, spread{part, to, page, stride})
		}
		return p.add(q.StartRead(ctx, iv, at, to))
	})
}

// eachRun calls f for pages of a sharded buffer that lie one behind the other in a core, in pieces that may be copied
// together: n pages from page number from of the transfer on. To the queue a piece is a page of an interleaved buffer
// that has a page in each bank up to the core's; at is the offset of the core's.
func (b *Buffer) eachRun(off, size int, f func(iv *dispatch.Interleaved, at, from, n int) error) error {
	page, stride := b.PageSize(), int(b.iv.PageSize)
	most := max(1, mostGathered/stride)
	first := b.first + off/page
	banks := b.banksOfKind()
	for _, r := range b.dist.Runs(first, size/page) {
		for r.Pages > 0 {
			n := min(r.Pages, most)
			bank := b.banks[r.Core]
			bytes := (n-1)*stride + page
			iv := dispatch.Interleaved{
				DRAM: b.iv.DRAM, Addr: b.iv.Addr + uint32(r.Slot*stride), PageSize: uint32(n * stride), HostPage: uint32(bytes),
				Pages: bank + 1, Banks: banks,
			}
			if err := f(&iv, bank*bytes, r.Page-first, n); err != nil {
				return err
			}
			r.Page, r.Slot, r.Pages = r.Page+n, r.Slot+n, r.Pages-n
		}
	}
	return nil
}

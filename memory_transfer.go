package reprise

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/dispatch"
)

// mostGathered bounds what a transfer of a sharded buffer copies together.
const mostGathered = 64 << 10

// check says whether a transfer stays inside the buffer and on its pages.
func (b *Buffer) check(op string, off, n int) error {
	if page := b.PageSize(); off < 0 || n < 0 || off > b.Size() || n > b.Size()-off || off%page != 0 || n%page != 0 {
		return &TransferError{Op: op, Offset: off, Size: n, Have: b.Size(), Page: page}
	}
	return nil
}

// write writes to the buffer through a queue, whatever its layout.
func (b *Buffer) write(ctx context.Context, q *dispatch.Queue, off int, data []byte) error {
	if err := b.check("write", off, len(data)); err != nil {
		return err
	}
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
	if b.dist == nil {
		var err error
		p.last, err = q.StartRead(ctx, &b.iv, off+b.first*b.PageSize(), dst)
		return p, err
	}
	page, stride := b.PageSize(), int(b.iv.PageSize)
	err := b.eachRun(off, len(dst), func(iv *dispatch.Interleaved, at, from, n int) error {
		part := dst[from*page : (from+n)*page]
		to := part
		if page != stride && n > 1 {
			to = make([]byte, (n-1)*stride+page)
			p.spread = append(p.spread, spread{part, to, page, stride})
		}
		return p.add(q.StartRead(ctx, iv, at, to))
	})
	if err != nil {
		p.Abandon()
		return nil, err
	}
	return p, nil
}

// eachRun calls f for pages of a sharded buffer that lie one behind the other in a core, in pieces that may be copied
// together: n pages from page number from of the transfer on. To the queue a piece is a page of an interleaved buffer
// that has a page in each bank up to the core's; at is the offset of the core's.
func (b *Buffer) eachRun(off, size int, f func(iv *dispatch.Interleaved, at, from, n int) error) error {
	page, stride := b.PageSize(), int(b.iv.PageSize)
	most := max(1, mostGathered/stride)
	first := b.first + off/page
	banks := b.d.DRAMBanks()
	if !b.iv.DRAM {
		banks = b.d.disp.L1Banks()
	}
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

// plain says whether the buffer is a whole interleaved one.
func (b *Buffer) plain() error {
	switch {
	case b.root != nil:
		return fmt.Errorf("buffer %q is a part of another: %w", b.name, ErrLayout)
	case b.dist != nil:
		return fmt.Errorf("buffer %q is %s: %w", b.name, b.Layout(), ErrLayout)
	}
	return nil
}

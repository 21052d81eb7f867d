package reprise

import (
	"github.com/reprise-tt/reprise/dispatch"
)

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

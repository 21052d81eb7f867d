package dispatch

// Buffer is device memory in pages, of which transfers move any range of bytes: the pages of an Interleaved buffer, those
// of a buffer that is sharded over cores, or some of either.
type Buffer struct {
	Whole    Interleaved // all the pages; of a sharded buffer only their sizes, and the address in the bank of each core
	Sharding Sharding    // nil if the buffer is interleaved
	Banks    []int       // the bank of each core of the sharding
	First    int         // page of Whole or of the sharding that is page 0
	Pages    int
}

// Sharding says where the pages of a sharded buffer lie.
type Sharding interface {
	// Page returns the core of page i, by number, and which of the core's pages it is.
	Page(i int) (core, slot int)
}

// Size returns the buffer's size in bytes.
func (b *Buffer) Size() int { return b.Pages * b.page() }

// page returns the bytes of a page.
func (b *Buffer) page() int { return int(b.Whole.HostPage) }

// Page returns the bank of page i and its address there. i is from 0 on and below Pages.
func (b *Buffer) Page(i int) (bank int, addr uint32) {
	if b.Sharding == nil {
		return b.Whole.at(b.First + i)
	}
	core, slot := b.Sharding.Page(b.First + i)
	return b.Banks[core], b.Whole.Addr + uint32(slot)*b.Whole.PageSize
}

// check checks that a range is inside the buffer.
func (b *Buffer) check(op string, off, n int) error {
	if off < 0 || n < 0 || off > b.Size() || n > b.Size()-off {
		return &TransferError{Op: op, Offset: off, Size: n, Have: b.Size()}
	}
	return nil
}

// chunk is a part of a transfer that a queue moves as one. To the queue it is a range of an interleaved buffer.
type chunk struct {
	iv     Interleaved
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

// eachRun cuts whole pages into chunks: one if the buffer is interleaved, otherwise runs of pages that lie one after the
// other in a core.
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

// eachPage cuts a range of the buffer into chunks of at most a page.
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

// chunkInPage is a range inside of a page.
func (b *Buffer) chunkInPage(off, n int) chunk {
	bank, addr := b.Page(off / b.page())
	c := chunkInBank(b.Whole.DRAM, bank, addr+uint32(off%b.page()), n)
	c.off, c.n, c.inPage = off, n, true
	return c
}

// chunkInBank is n bytes of a bank: the last page of an interleaved buffer that has one page in each bank up to this one.
func chunkInBank(dram bool, bank int, addr uint32, n int) chunk {
	return chunk{
		iv: Interleaved{DRAM: dram, Addr: addr, PageSize: uint32(n), HostPage: uint32(n), Pages: bank + 1, Banks: bank + 1},
		at: bank * n,
	}
}

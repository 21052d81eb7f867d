package reprise

import (
	"fmt"

	"github.com/reprise-tt/reprise/allocator"
)

// Sub returns a part of the buffer: pages from byte off on, size bytes, both multiples of the page. It shares the memory,
// which stays allocated until the buffer and all parts of it are freed. Pages of the part are numbered from 0, and lie
// where they lie in the whole.
func (b *Buffer) Sub(off, size int) (*Buffer, error) {
	if err := b.checkDevice(b.d); err != nil {
		return nil, fmt.Errorf("reprise: part of a buffer: %w", err)
	}
	page := b.PageSize()
	if off < 0 || size <= 0 || off%page != 0 || size%page != 0 || off > b.Size() || size > b.Size()-off {
		return nil, fmt.Errorf("reprise: part of buffer %q: %w", b.name, &TransferError{Op: "part", Offset: off, Size: size, Have: b.Size(), Page: page})
	}
	if b.pool != nil {
		return nil, fmt.Errorf("reprise: part of buffer %q: it is in pool %q: take the part from the pool", b.name, b.pool.name)
	}
	if err := b.d.mem.Hold(b.ext); err != nil {
		return nil, fmt.Errorf("reprise: part of buffer %q: %w", b.name, err)
	}
	return b.part(off/page, size/page), nil
}

// part returns pages of the buffer, without holding its memory.
func (b *Buffer) part(first, pages int) *Buffer {
	page := b.PageSize()
	return &Buffer{
		d: b.d, name: fmt.Sprintf("%s[%d:%d]", b.name, first*page, (first+pages)*page), ext: b.ext, iv: b.iv, dist: b.dist, spec: b.spec, banks: b.banks,
		root: b.whole(), first: b.first + first, pages: pages,
	}
}

// whole returns the buffer that b is a part of, or b.
func (b *Buffer) whole() *Buffer {
	if b.root != nil {
		return b.root
	}
	return b
}

// FirstPage returns which page of the whole buffer is the first of this one: 0 unless it is a part. Kernels that address
// the pages of an interleaved buffer add it to the page numbers of a part.
func (b *Buffer) FirstPage() int { return b.first }

// Place is where a page lies.
type Place struct {
	Bank int
	Core Core // the worker whose L1 it is, or (bank,0) for DRAM
	Addr uint32
}

// Page returns where page i lies; false if there is no such page.
func (b *Buffer) Page(i int) (Place, bool) {
	if i < 0 || i >= b.pages {
		return Place{}, false
	}
	i += b.first
	if b.dist == nil {
		bank, addr := b.ext.Page(uint64(i))
		return Place{bank, b.d.coreOf(b.ext.Kind, bank), uint32(addr)}, true
	}
	core, slot := b.dist.Page(i)
	bank := b.banks[core]
	return Place{bank, b.d.coreOf(b.ext.Kind, bank), b.iv.Addr + uint32(slot)*b.iv.PageSize}, true
}

// PageAt is the inverse of [Buffer.Page]: the page at an address of a bank, and the offset in it in bytes. It is false
// where no page of the buffer lies. It ignores p.Core.
func (b *Buffer) PageAt(p Place) (page, off int, ok bool) {
	if b.dist == nil {
		at, o, ok := b.ext.PageAt(p.Bank, uint64(p.Addr))
		page, off = int(at), int(o)
		return page - b.first, off, ok && page >= b.first && page < b.first+b.pages
	}
	for core, bank := range b.banks {
		if bank != p.Bank || p.Addr < b.iv.Addr {
			continue
		}
		slot := (p.Addr - b.iv.Addr) / b.iv.PageSize
		off = int((p.Addr - b.iv.Addr) % b.iv.PageSize)
		page, ok = b.dist.PageAt(core, int(slot))
		ok = ok && off < b.PageSize() && page >= b.first && page < b.first+b.pages
		return page - b.first, off, ok
	}
	return 0, 0, false
}

// Cores returns the cores that hold shards, in the order in which shards are dealt; nil if the buffer is interleaved.
func (b *Buffer) Cores() []Core {
	if b.dist == nil {
		return nil
	}
	return b.dist.Cores()
}

// coreOf returns the core of a bank: L1 banks are the workers, row by row.
func (d *Device) coreOf(k Kind, bank int) Core {
	if k == DRAM {
		return Core{X: bank}
	}
	w := d.Grid().End.X + 1
	return Core{X: bank % w, Y: bank / w}
}

// banksOf returns the banks of the cores of a distribution.
func (d *Device) banksOf(k Kind, dist *allocator.Distribution) ([]int, error) {
	var out []int
	for _, c := range dist.Cores() {
		switch {
		case k == DRAM && (c.Y != 0 || c.X >= d.DRAMBanks()):
			return nil, fmt.Errorf("core %v: shards in DRAM are on (bank,0), with banks up to %d", c, d.DRAMBanks()-1)
		case k == DRAM:
			out = append(out, c.X)
		case !d.Grid().Contains(c):
			return nil, fmt.Errorf("core %v is not one of the workers %v", c, d.Grid())
		default:
			out = append(out, c.Y*(d.Grid().End.X+1)+c.X)
		}
	}
	return out, nil
}

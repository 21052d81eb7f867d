package allocator

import "fmt"

// Extent is an allocated range: one address, valid in every bank of its kind. Copies are the same
// extent. Only extents that an allocator returned can be freed or held, and their fields must not
// be changed.
type Extent struct {
	Addr     uint64 // in each bank
	PerBank  uint64 // bytes taken in each bank
	Size     uint64 // bytes asked for, over all banks
	PageSize uint64 // bytes of a page as asked for
	Stride   uint64 // bytes from one page to the next in a bank: PageSize, aligned
	from     *Allocator
	slot     uint32
	seal     state  // of its slot, exclusive or a sum of what must not be changed
	Banks    uint32 // banks, or shards, over which pages go round
	Kind     Kind
}

// state returns the slot's state at the allocation; another value if the extent was changed.
func (e *Extent) state() state { return e.seal ^ e.mix() }

// mix returns a hash of the fields that decide which memory is freed.
func (e *Extent) mix() state {
	const golden = 0x9e3779b97f4a7c15                                         // 2^64 over the golden ratio: the high half of a product depends on all bits
	return state((e.Addr*golden + e.PerBank + uint64(e.Kind)) * golden >> 33) // without stateHeld
}

// End returns the address after the extent in each bank.
func (e Extent) End() uint64 { return e.Addr + e.PerBank }

// Pages returns the number of pages.
func (e Extent) Pages() uint64 {
	if e.PageSize == 0 {
		return 0
	}
	return e.Size / e.PageSize
}

// IsZero reports whether e is the zero Extent, which no allocator returns.
func (e Extent) IsZero() bool { return e.from == nil }

// String describes the extent.
func (e Extent) String() string { return fmt.Sprintf("%s [%#x,%#x)", e.Kind, e.Addr, e.End()) }

// Page returns the bank that holds page i of an interleaved extent and the page's address in it:
// pages go round the banks from bank 0. i must be below Pages.
func (e Extent) Page(i uint64) (bank int, addr uint64) {
	n := uint64(max(e.Banks, 1))
	return int(i % n), e.Addr + e.Stride*(i/n)
}

// PageAt is the inverse of [Extent.Page]: the page at an address of a bank and the offset in it. ok
// is false outside the extent, between a page's size and its stride, and in unused slots of the
// last row.
func (e Extent) PageAt(bank int, addr uint64) (page, offset uint64, ok bool) {
	if bank < 0 || bank >= int(e.Banks) || addr < e.Addr || addr >= e.End() || e.Stride == 0 {
		return 0, 0, false
	}
	row, offset := (addr-e.Addr)/e.Stride, (addr-e.Addr)%e.Stride
	page = row*uint64(e.Banks) + uint64(bank)
	if page >= e.Pages() || offset >= e.PageSize {
		return 0, 0, false
	}
	return page, offset, true
}

// Overlaps reports whether the extents share bytes.
func (e Extent) Overlaps(f Extent) bool {
	dram := func(k Kind) bool { return k == DRAM || k == Trace }
	return dram(e.Kind) == dram(f.Kind) && e.Addr < f.End() && f.Addr < e.End()
}

// Live is an allocated extent with its record.
type Live struct {
	Extent
	Owner, Tag string
	Site       uintptr // the program counter of the call that asked for it, 0 if it is not known
	Holds      int     // how often it is held
	Freed      bool    // its owner has freed it; holds keep it
}

// String describes the extent and its owner.
func (l Live) String() string {
	s := l.Extent.String()
	if l.Owner != "" {
		s += " of " + l.Owner
	}
	if l.Tag != "" {
		s += fmt.Sprintf(" %q", l.Tag)
	}
	return s
}

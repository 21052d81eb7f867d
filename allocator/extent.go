package allocator

import "fmt"

// Extent is an allocated range: one address, valid in every bank of its kind. Copies are the same
// extent. Only extents that an allocator returned can be freed or held; their fields must not
// change.
type Extent struct {
	Addr     uint64 // in each bank
	PerBank  uint64 // in each bank
	Size     uint64 // asked for, over all banks
	PageSize uint64
	Stride   uint64 // bytes from one page to the next in a bank: PageSize, aligned
	from     *Allocator
	slot     uint32
	seal     state  // of its slot, xor mix
	Banks    uint32 // banks, or shards, over which pages go round
	Kind     Kind
}

// state returns the slot's state at the allocation; another value if the extent was changed.
func (e *Extent) state() state { return e.seal ^ e.mix() }

// mix returns a hash, without stateHeld, of the fields that decide which memory is freed.
func (e *Extent) mix() state {
	const golden = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio: the high half of a product depends on all bits
	return state((e.Addr*golden + e.PerBank + uint64(e.Kind)) * golden >> 33)
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

func (e Extent) String() string { return fmt.Sprintf("%s [%#x,%#x)", e.Kind, e.Addr, e.End()) }

// Page returns the bank that holds page i < Pages() of an interleaved extent and the page's address
// in it.
func (e Extent) Page(i uint64) (bank int, addr uint64) {
	n := uint64(max(e.Banks, 1))
	return int(i % n), e.Addr + e.Stride*(i/n)
}

// PageAt is the inverse of [Extent.Page]: the page at an address of a bank and the offset in it. ok
// is false outside of pages.
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
	Site       uintptr // program counter of the caller; 0 if unknown
	Holds      int
	Freed      bool // by its owner; holds keep it
}

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

package recording

import (
	"encoding/binary"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/sparse"
	"github.com/reprise-tt/reprise/sim/emu"
)

// memory are words of DRAM.
type memory struct {
	sparse.Memory
	banks []chip.Bank
	seen  func(bank int, addr uint64, n int) // is called for each read, if not nil
}

// at returns the address of a word in the Memory.
func at(banks []chip.Bank, bank int, addr uint64) uint64 {
	return emu.TrackAddress(banks[bank].Controller, banks[bank].Offset+addr)
}

// ReadDRAM implements metaltrace.Memory. Words that are missing are zero.
func (m *memory) ReadDRAM(bank int, addr uint64, p []byte) error {
	if m.seen != nil {
		m.seen(bank, addr, len(p))
	}
	for i := range p {
		a := addr + uint64(i)
		v, _ := m.Get(at(m.banks, bank, a&^3))
		p[i] = byte(v >> (a % 4 * 8))
	}
	return nil
}

// transfer is a host's read or write of an interleaved buffer through a queue.
type transfer struct {
	step        int
	write       bool
	base        uint64
	page, pages int    // bytes of a page, which is whole alignments of DRAM
	name        string // of the buffer
	tensor      *Tensor
}

// size returns the bytes of a page without what aligns it.
func (t *transfer) size() int {
	if t.tensor != nil {
		return t.tensor.PageSize
	}
	return t.page
}

// end is behind the buffer's last row of pages.
func (t *transfer) end(banks []chip.Bank) uint64 {
	return t.base + uint64((t.pages+len(banks)-1)/len(banks)*t.page)
}

// words calls f for each word of a page, until it returns false.
func (t *transfer) words(banks []chip.Bank, page int, f func(at uint64) bool) {
	for i := 0; i < t.page; i += 4 {
		if !f(at(banks, page%len(banks), t.base+uint64(page/len(banks)*t.page+i))) {
			return
		}
	}
}

// content returns the buffer's bytes in m, and whether some of its words are there.
func (t *transfer) content(banks []chip.Bank, m sparse.Memory) (b []byte, some bool) {
	for p := range t.pages {
		t.words(banks, p, func(at uint64) bool {
			v, ok := m.Get(at)
			b, some = binary.LittleEndian.AppendUint32(b, v), some || ok
			return true
		})
		b = b[:(p+1)*t.size()]
	}
	return b, some
}

// first returns the buffer's first word that is in m.
func (t *transfer) first(banks []chip.Bank, m sparse.Memory) (a uint64, some bool) {
	for p := 0; p < t.pages && !some; p++ {
		t.words(banks, p, func(at uint64) bool {
			a = at
			_, some = m.Get(at)
			return !some
		})
	}
	return a, some
}

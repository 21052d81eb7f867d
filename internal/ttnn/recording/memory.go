package recording

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu"
)

const blockWords = 256

type place struct {
	bank  int
	block uint64 // address in the bank over 4*blockWords
}

type block struct {
	has   [blockWords / 64]uint64
	words [blockWords]uint32
}

// memory are words of DRAM banks.
type memory map[place]*block

func (m memory) set(bank int, addr uint64, v uint32) {
	at := place{bank, addr / (4 * blockWords)}
	b := m[at]
	if b == nil {
		b = new(block)
		m[at] = b
	}
	w := addr / 4 % blockWords
	b.has[w/64] |= 1 << (w % 64)
	b.words[w] = v
}

func (m memory) get(bank int, addr uint64) (v uint32, ok bool) {
	b, w := m[place{bank, addr / (4 * blockWords)}], addr/4%blockWords
	if b == nil || b.has[w/64]>>(w%64)&1 == 0 {
		return 0, false
	}
	return b.words[w], true
}

// drop takes out the words of n bytes.
func (m memory) drop(bank int, addr uint64, n int) {
	for a := addr &^ 3; a < addr+uint64(n); a += 4 {
		if b, w := m[place{bank, a / (4 * blockWords)}], a/4%blockWords; b != nil {
			b.has[w/64] &^= 1 << (w % 64)
		}
	}
}

// ReadDRAM implements metaltrace.Memory. Words that are missing are zero.
func (m memory) ReadDRAM(bank int, addr uint64, p []byte) error {
	for i := range p {
		a := addr + uint64(i)
		v, _ := m.get(bank, a&^3)
		p[i] = byte(v >> (a % 4 * 8))
	}
	return nil
}

// all calls f for each word, in order of banks and addresses, until it returns false.
func (m memory) all(f func(bank int, addr uint64, v uint32) bool) {
	for _, at := range slices.SortedFunc(maps.Keys(m), func(a, b place) int {
		return cmp.Or(a.bank-b.bank, cmp.Compare(a.block, b.block))
	}) {
		b := m[at]
		for w := range uint64(blockWords) {
			if b.has[w/64]>>(w%64)&1 != 0 && !f(at.bank, at.block*4*blockWords+4*w, b.words[w]) {
				return
			}
		}
	}
}

// banks are those of a chip, by controller.
type banks []chip.Bank

// add puts the words of a controller into m.
func (k banks) add(m memory, controller int, runs []emu.DRAMBytes) {
	for _, r := range runs {
		for i, v := range r.Words {
			a := r.Addr + 4*uint64(i)
			for _, b := range k {
				if b.Controller == controller && a-b.Offset < b.Size {
					m.set(b.Index, a-b.Offset, v)
				}
			}
		}
	}
}

// used returns what a step has read and written.
func (k banks) used(all []emu.DRAMUse) (read, written memory) {
	read, written = memory{}, memory{}
	for _, u := range all {
		k.add(read, u.Controller, u.Read)
		k.add(written, u.Controller, u.Written)
	}
	return read, written
}

// watched is a memory that notes what is read.
type watched struct {
	memory
	seen []struct {
		bank, n int
		addr    uint64
	}
}

// ReadDRAM implements metaltrace.Memory.
func (w *watched) ReadDRAM(bank int, addr uint64, p []byte) error {
	w.seen = append(w.seen, struct {
		bank, n int
		addr    uint64
	}{bank, len(p), addr})
	return w.memory.ReadDRAM(bank, addr, p)
}

// interleaved returns n bytes of a buffer's pages, from page 0 on, and whether m has them all.
func (m memory) interleaved(banks int, addr uint64, page, stride, n int) (out []byte, whole bool) {
	out, whole = make([]byte, n), true
	for i := 0; i < n; i += 4 {
		p := i / page
		v, ok := m.get(p%banks, addr+uint64(p/banks*stride+i%page))
		binary.LittleEndian.PutUint32(out[i:], v)
		whole = whole && ok
	}
	return out, whole
}

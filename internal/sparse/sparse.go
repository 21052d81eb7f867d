// Package sparse has memory of which few words are there.
package sparse

import (
	"maps"
	"slices"
)

// Memory holds 32-bit words by their address, a multiple of 4.
type Memory map[uint64]*Block

const words = 256

// BlockSize is in bytes; the key of a Block is its address over it.
const BlockSize = 4 * words

// Block are the words from a multiple of 1 KiB on; Has has a bit for each that is there.
type Block struct {
	Has   [words / 64]uint64
	Words [words]uint32
}

// Set puts a word.
func (m Memory) Set(addr uint64, v uint32) {
	b := m[addr/(4*words)]
	if b == nil {
		b = new(Block)
		m[addr/(4*words)] = b
	}
	w := addr / 4 % words
	b.Has[w/64] |= 1 << (w % 64)
	b.Words[w] = v
}

// Fill puts words from an address on, without those that are in one of other memories.
func (m Memory) Fill(addr uint64, v []uint32, but ...Memory) {
	for len(v) > 0 {
		n, w := addr/(4*words), addr/4%words
		k := min(uint64(len(v)), words-w)
		var has [words / 64]uint64
		for _, o := range but {
			if b := o[n]; b != nil {
				for i := range has {
					has[i] |= b.Has[i]
				}
			}
		}
		for i, v := range v[:k] {
			if w := w + uint64(i); has[w/64]>>(w%64)&1 == 0 {
				m.Set(4*(n*words+w), v)
			}
		}
		addr, v = addr+4*k, v[k:]
	}
}

// Get returns a word, or 0, and whether it is there.
func (m Memory) Get(addr uint64) (v uint32, ok bool) {
	b, w := m[addr/(4*words)], addr/4%words
	if b == nil || b.Has[w/64]>>(w%64)&1 == 0 {
		return 0, false
	}
	return b.Words[w], true
}

// Delete takes a word out.
func (m Memory) Delete(addr uint64) {
	if b, w := m[addr/(4*words)], addr/4%words; b != nil {
		b.Has[w/64] &^= 1 << (w % 64)
	}
}

// Put puts all words of another memory.
func (m Memory) Put(o Memory) {
	for n, from := range o {
		b := m[n]
		if b == nil {
			copied := *from
			m[n] = &copied
			continue
		}
		for w := range from.Words {
			if bit := uint64(1) << (w % 64); from.Has[w/64]&bit != 0 {
				b.Has[w/64] |= bit
				b.Words[w] = from.Words[w]
			}
		}
	}
}

// All calls f for each word in the order of addresses, until f returns false.
func (m Memory) All(f func(addr uint64, v uint32) bool) {
	for _, n := range slices.Sorted(maps.Keys(m)) {
		b := m[n]
		for w := range uint64(words) {
			if b.Has[w/64]>>(w%64)&1 != 0 && !f((n*words+w)*4, b.Words[w]) {
				return
			}
		}
	}
}

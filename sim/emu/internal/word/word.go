// Package word copies, packs and replaces bytes in memory of 32-bit words.
package word

import (
	"encoding/binary"
	"slices"
)

// Merge copies n bytes into words at byte offset off from buf, whose first word holds off&3 bytes
// of padding.
func Merge(words []uint32, off uint64, buf []uint32, n int) {
	w, head := off>>2, int(off&3)
	if head != 0 || n < 4 {
		k := min(n, 4-head)
		mask := uint32(1)<<(8*k) - 1
		if k == 4 {
			mask = ^uint32(0)
		}
		mask <<= 8 * head
		words[w] = words[w]&^mask | buf[0]&mask
		w, buf, n = w+1, buf[1:], n-k
	}
	copy(words[w:], buf[:n/4])
	if r := n & 3; r != 0 {
		mask := uint32(1)<<(8*r) - 1
		i := n / 4
		words[w+uint64(i)] = words[w+uint64(i)]&^mask | buf[i]&mask
	}
}

// Span is how many words hold n bytes at byte offset off.
func Span(off uint64, n int) int { return int((off&3 + uint64(n) + 3) / 4) }

// Pack puts the bytes p into words, the first of which starts with off&3 bytes of padding; Unpack
// is the reverse.
func Pack(buf []uint32, off uint64, p []byte) {
	if off&3 == 0 {
		for len(p) >= 4 {
			buf[0] = binary.LittleEndian.Uint32(p)
			buf, p = buf[1:], p[4:]
		}
		off = 0
	}
	sh := uint32(off&3) * 8
	for i := 0; len(p) > 0; i++ {
		var w uint32
		for ; sh < 32 && len(p) > 0; sh += 8 {
			w |= uint32(p[0]) << sh
			p = p[1:]
		}
		buf[i], sh = w, 0
	}
}

func Unpack(p []byte, off uint64, buf []uint32) {
	if off&3 == 0 {
		for len(p) >= 4 {
			binary.LittleEndian.PutUint32(p, buf[0])
			buf, p = buf[1:], p[4:]
		}
		off = 0
	}
	sh := uint32(off&3) * 8
	for i := 0; len(p) > 0; i++ {
		for w := buf[i]; sh < 32 && len(p) > 0; sh += 8 {
			p[0] = byte(w >> sh)
			p = p[1:]
		}
		sh = 0
	}
}

// Equal is slices.Equal for slices of the same length, by 64 bytes at once.
func Equal(a, b []uint32) bool {
	for ; len(a) >= 16; a, b = a[16:], b[16:] {
		if [16]uint32(a) != [16]uint32(b) {
			return false
		}
	}
	return slices.Equal(a, b)
}

// Insert replaces the bits mask<<shift of w by those of v.
func Insert(w, v, shift, mask uint32) uint32 {
	return w&^(mask<<shift) | v&mask<<shift
}

// Bool is 1 for true.
func Bool(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// Differ reports whether n bytes of memory at addr differ from buf, aligned as memory is.
func Differ(memory []uint32, addr uint32, buf []uint32, n int) bool {
	k := Span(uint64(addr), n)
	return !slices.Equal(memory[addr>>2:][:k], buf[:k])
}

package kmd

import "unsafe"

// Device memory is accessed by these assembly routines only, one instruction per access. The
// compiler may drop, merge, split or narrow accesses through pointers; on amd64 atomic stores are
// locked exchanges, and copy moves vectors.

//go:noescape
func load8(p unsafe.Pointer) uint8

//go:noescape
func load16(p unsafe.Pointer) uint16

//go:noescape
func load32(p unsafe.Pointer) uint32

//go:noescape
func load64(p unsafe.Pointer) uint64

//go:noescape
func store8(p unsafe.Pointer, v uint8)

//go:noescape
func store16(p unsafe.Pointer, v uint16)

//go:noescape
func store32(p unsafe.Pointer, v uint32)

//go:noescape
func store64(p unsafe.Pointer, v uint64)

// copyTo stores n bytes to device memory in ascending order, each byte once: 4-byte stores up to an
// 8-byte boundary, 8-byte stores, and a 4-byte store at the end. dst and n are multiples of 4.
//
//go:noescape
func copyTo(dst unsafe.Pointer, src *byte, n uintptr)

// copyFrom loads from device memory in the same way; src and n are multiples of 4.
//
//go:noescape
func copyFrom(dst *byte, src unsafe.Pointer, n uintptr)

func fence()

// allOnes is a 32-bit read that no device answers.
const allOnes = 0xFFFFFFFF

type deviceMemory struct{ base unsafe.Pointer }

func deviceMemoryOf(mem []byte) deviceMemory {
	return deviceMemory{unsafe.Pointer(unsafe.SliceData(mem))}
}

func (d deviceMemory) at(off uint64) unsafe.Pointer { return unsafe.Add(d.base, off) }

func (d deviceMemory) Read(off uint64, p []byte) {
	if lead := off & 3; lead != 0 && len(p) > 0 {
		w := load32(d.at(off - lead))
		n := min(4-int(lead), len(p))
		for i := range n {
			p[i] = byte(w >> (8 * (int(lead) + i)))
		}
		p, off = p[n:], off+uint64(n)
	}
	if n := len(p) &^ 3; n > 0 {
		copyFrom(unsafe.SliceData(p), d.at(off), uintptr(n))
		p, off = p[n:], off+uint64(n)
	}
	if len(p) > 0 {
		w := load32(d.at(off))
		for i := range p {
			p[i] = byte(w >> (8 * i))
		}
	}
}

// Write merges partial words at the edges, not atomically, as every Tenstorrent host library does.
func (d deviceMemory) Write(off uint64, p []byte) {
	if lead := off & 3; lead != 0 && len(p) > 0 {
		n := min(4-int(lead), len(p))
		d.merge(off-lead, int(lead), p[:n])
		p, off = p[n:], off+uint64(n)
	}
	if n := len(p) &^ 3; n > 0 {
		copyTo(d.at(off), unsafe.SliceData(p), uintptr(n))
		p, off = p[n:], off+uint64(n)
	}
	if len(p) > 0 {
		d.merge(off, 0, p)
	}
}

func (d deviceMemory) merge(off uint64, at int, p []byte) {
	w := load32(d.at(off))
	for i, b := range p {
		s := 8 * (at + i)
		w = w&^(0xFF<<s) | uint32(b)<<s
	}
	store32(d.at(off), w)
}

func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

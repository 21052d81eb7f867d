package kmd

import "unsafe"

// Device memory is accessed by these routines alone. The compiler may drop, merge, split or narrow
// accesses through pointers (two adjacent 32-bit stores become one 64-bit store, a masked load
// becomes a byte load), atomic stores are locked exchanges on amd64, and copy uses overlapping and
// vector moves; each of them is an access that a device register sees differently. Every routine is
// one instruction per access, in assembly.

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

// copyTo stores n bytes from ordinary memory to device memory in ascending order, each byte exactly
// once: 4-byte stores up to an 8-byte boundary, 8-byte stores, and a 4-byte store at the end. dst
// and n are multiples of 4.
//
//go:noescape
func copyTo(dst unsafe.Pointer, src *byte, n uintptr)

// copyFrom loads n bytes from device memory in the same way. src and n are multiples of 4.
//
//go:noescape
func copyFrom(dst *byte, src unsafe.Pointer, n uintptr)

// fence pushes earlier stores, those to write-combined memory too, out of the processor before
// later ones.
func fence()

// allOnes is what a 32-bit read returns if no device answers.
const allOnes = 0xFFFFFFFF

// deviceMemory is the start of a mapping of device memory.
type deviceMemory struct{ base unsafe.Pointer }

// deviceMemoryOf returns the device memory of a mapping.
func deviceMemoryOf(mem []byte) deviceMemory {
	return deviceMemory{unsafe.Pointer(unsafe.SliceData(mem))}
}

// at returns the address of an offset that was checked against the mapping.
func (d deviceMemory) at(off uint64) unsafe.Pointer { return unsafe.Add(d.base, off) }

// read copies from device memory. Bytes at the edges that don't fill an aligned word come from a
// load of that word.
func (d deviceMemory) read(off uint64, p []byte) {
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

// write copies to device memory. A device takes words of four bytes, so bytes at the edges that
// don't fill an aligned one are merged into a word that is read first, as every Tenstorrent host
// library does; the merge isn't atomic against the device.
func (d deviceMemory) write(off uint64, p []byte) {
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

// merge replaces bytes of an aligned word.
func (d deviceMemory) merge(off uint64, at int, p []byte) {
	w := load32(d.at(off))
	for i, b := range p {
		s := 8 * (at + i)
		w = w&^(0xFF<<s) | uint32(b)<<s
	}
	store32(d.at(off), w)
}

// addressOf returns the address of mmap'ed memory.
func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

package serve

import "unsafe"

// word32 and word64 are words of the shared header. Offsets are multiples of the word's size; mem
// is a mapping, so it is page-aligned and never moves.
func word32(mem []byte, at int) *uint32 {
	_ = mem[at : at+4]
	return (*uint32)(unsafe.Pointer(&mem[at]))
}

func word64(mem []byte, at int) *uint64 {
	_ = mem[at : at+8]
	return (*uint64)(unsafe.Pointer(&mem[at]))
}

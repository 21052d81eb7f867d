package usage

import "unsafe"

// word returns the 64-bit word at a byte, a multiple of 8 inside the memory.
func word(mem []byte, at int) *uint64 {
	return (*uint64)(unsafe.Pointer(&mem[at : at+8 : at+8][0]))
}

func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

package serve

import "unsafe"

func word32(mem []byte, at int) *uint32 {
	_ = mem[at : at+4]
	return (*uint32)(unsafe.Pointer(&mem[at]))
}

func word64(mem []byte, at int) *uint64 {
	_ = mem[at : at+8]
	return (*uint64)(unsafe.Pointer(&mem[at]))
}

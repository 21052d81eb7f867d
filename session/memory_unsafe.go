package session

import "unsafe"

// memoryAt is the process's memory at an address that it has just pinned: mmap'ed memory, never of Go's heap.
func memoryAt(va, size uint64) []byte {
	addr := uintptr(va)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), int(size))
}

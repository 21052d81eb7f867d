package session

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// memoryAt is the process's memory at an address that it has just pinned: mmap'ed memory, never of Go's heap.
func memoryAt(va, size uint64) []byte {
	return unsafe.Slice((*byte)(pointerTo(va)), int(size))
}

func pointerTo(va uint64) unsafe.Pointer {
	addr := uintptr(va)
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

// store copies to memory that others look at meanwhile: aligned words in one piece each.
func store(to, from []byte) {
	for len(from) >= 4 && addressOf(to)%4 == 0 {
		atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(to))), binary.NativeEndian.Uint32(from))
		to, from = to[4:], from[4:]
	}
	copy(to, from)
}

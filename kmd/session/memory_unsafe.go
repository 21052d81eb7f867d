package session

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

func memoryAt(va, size uint64) []byte {
	return unsafe.Slice((*byte)(pointerTo(va)), int(size))
}

func pointerTo(va uint64) unsafe.Pointer {
	addr := uintptr(va)
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

// store copies to memory that others load: each aligned word at once, the last word first.
func store(to, from []byte) {
	rest := len(from) % memoryWord
	whole := len(from) - rest
	copy(to[whole:len(from)], from[whole:])
	if addressOf(to)%memoryWord != 0 {
		copy(to, from[:whole])
		return
	}
	for at := whole - memoryWord; at >= 0; at -= memoryWord {
		atomic.StoreUint32((*uint32)(unsafe.Pointer(&to[at])), binary.NativeEndian.Uint32(from[at:]))
	}
}

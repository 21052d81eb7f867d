package driver

import (
	"encoding/binary"
	"os"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// hostPages is memory that a device reaches, mmap'ed, never Go's heap.
type hostPages struct {
	addr  uint64
	size  uint64
	file  int    // descriptor of a buffer's memory, negative if it has none
	unmap func() // ends the model's own alias of the pages, or nil
}

func (h *hostPages) at(off uint64) unsafe.Pointer {
	addr := uintptr(h.addr + off)
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

// A real pin keeps unmapped pages, the model's only of shared mappings.
func (h *hostPages) access(off uint64, p []byte, write bool) error {
	if len(p) == 0 || Move(unsafe.Slice((*byte)(h.at(off)), len(p)), p, write) {
		return nil
	}
	return &DMAError{Bus: h.addr + off, Size: len(p), Write: write, Why: "the pinned memory was unmapped"}
}

// Move copies between shared memory and p, of equal length above 0; false: a fault. Aligned
// accesses of 4 and 8 bytes are single, so both sides see whole pointers and flags.
func Move(mem, p []byte, write bool) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	q := unsafe.Pointer(unsafe.SliceData(mem))
	defer func() {
		switch e := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			if uint64(e.Addr())-uint64(uintptr(q)) >= uint64(len(mem)) {
				panic(e)
			}
			ok = false
		default:
			panic(e)
		}
	}()
	switch {
	case len(p) == 4 && uintptr(q)&3 == 0 && write:
		atomic.StoreUint32((*uint32)(q), binary.NativeEndian.Uint32(p))
	case len(p) == 4 && uintptr(q)&3 == 0:
		binary.NativeEndian.PutUint32(p, atomic.LoadUint32((*uint32)(q)))
	case len(p) == 8 && uintptr(q)&7 == 0 && write:
		atomic.StoreUint64((*uint64)(q), binary.NativeEndian.Uint64(p))
	case len(p) == 8 && uintptr(q)&7 == 0:
		binary.NativeEndian.PutUint64(p, atomic.LoadUint64((*uint64)(q)))
	case write:
		copy(mem, p)
	default:
		copy(p, mem)
	}
	return true
}

func (h *hostPages) bytes() []byte { return unsafe.Slice((*byte)(h.at(0)), int(h.size)) }

func (h *hostPages) offsetOf(mem []byte) (off uint64, in bool) {
	a := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	return a - h.addr, a >= h.addr && a-h.addr < h.size
}

func (h *hostPages) drop() {
	if h.unmap != nil {
		h.unmap()
		h.unmap = nil
	}
}

func pageSize() uint64 { return uint64(os.Getpagesize()) }

package driver

import (
	"encoding/binary"
	"os"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// hostPages is memory of this process that a device reaches: pinned pages or a buffer of the
// driver. It is mmap'ed, never Go's heap.
type hostPages struct {
	addr uint64
	size uint64
	file int // descriptor of a buffer's memory, negative if it has none
	// unmap ends the model's own alias of the pages; nil without one.
	unmap func()
}

// at returns the address of an offset inside the pages.
func (h *hostPages) at(off uint64) unsafe.Pointer {
	addr := uintptr(h.addr + off)
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

// read copies from the pages. Aligned accesses of 4 and 8 bytes are single loads, so a device sees
// whole pointers and flags. Unmapped pages are an error.
func (h *hostPages) read(off uint64, p []byte) (err error) {
	if len(p) == 0 {
		return nil
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer h.recovered(off, len(p), false, &err)
	q := h.at(off)
	switch {
	case len(p) == 4 && off&3 == 0:
		binary.NativeEndian.PutUint32(p, atomic.LoadUint32((*uint32)(q)))
	case len(p) == 8 && off&7 == 0:
		binary.NativeEndian.PutUint64(p, atomic.LoadUint64((*uint64)(q)))
	default:
		copy(p, unsafe.Slice((*byte)(q), len(p)))
	}
	return nil
}

// write copies to the pages. Aligned accesses of 4 and 8 bytes are single stores, which publish
// earlier writes.
func (h *hostPages) write(off uint64, p []byte) (err error) {
	if len(p) == 0 {
		return nil
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer h.recovered(off, len(p), true, &err)
	q := h.at(off)
	switch {
	case len(p) == 4 && off&3 == 0:
		atomic.StoreUint32((*uint32)(q), binary.NativeEndian.Uint32(p))
	case len(p) == 8 && off&7 == 0:
		atomic.StoreUint64((*uint64)(q), binary.NativeEndian.Uint64(p))
	default:
		copy(unsafe.Slice((*byte)(q), len(p)), p)
	}
	return nil
}

// recovered turns a fault in pinned pages that were unmapped without unpinning into an error. A
// real pin keeps the pages; the model only does for shared mappings.
func (h *hostPages) recovered(off uint64, n int, write bool, err *error) {
	switch e := recover().(type) {
	case nil:
	case interface{ Addr() uintptr }:
		if a := uint64(e.Addr()); a < h.addr || a >= h.addr+h.size {
			panic(e)
		}
		*err = &DMAError{Bus: h.addr + off, Size: n, Write: write, Why: "the pinned memory was unmapped"}
	default:
		panic(e)
	}
}

func (h *hostPages) bytes() []byte { return unsafe.Slice((*byte)(h.at(0)), int(h.size)) }

// offsetOf returns the offset of mem in the pages.
func (h *hostPages) offsetOf(mem []byte) (off uint64, in bool) {
	a := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	return a - h.addr, a >= h.addr && a-h.addr < h.size
}

// drop frees the alias.
func (h *hostPages) drop() {
	if h.unmap != nil {
		h.unmap()
		h.unmap = nil
	}
}

// pageSize is the host's page size in bytes.
func pageSize() uint64 { return uint64(os.Getpagesize()) }

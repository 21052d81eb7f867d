package kmd

import (
	"sync/atomic"
	"unsafe"
)

// Load32 atomically loads the word at byte off, a multiple of 4. Device writes before the word's
// are visible afterwards.
func (m *HostMemory) Load32(off uint64) uint32 { return atomic.LoadUint32(m.word(off)) }

// Store32 atomically stores the word at byte off, a multiple of 4. A device that sees the word sees
// all earlier stores.
func (m *HostMemory) Store32(off uint64, v uint32) { atomic.StoreUint32(m.word(off), v) }

func (m *HostMemory) word(off uint64) *uint32 {
	return (*uint32)(unsafe.Pointer(&m.mem[off : off+4 : off+4][0]))
}

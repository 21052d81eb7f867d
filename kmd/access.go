package kmd

import (
	"fmt"
	"runtime"
)

type accessError struct {
	off, n, size         uint64
	name                 string
	closed, store, multi bool
}

func (e *accessError) Error() string {
	what := "load"
	if e.store {
		what = "store"
	}
	return fmt.Sprintf("kmd: %s: %s of %d bytes at %#x: %v", e.name, what, e.n, e.off, e.Unwrap())
}

func (e *accessError) Unwrap() error {
	switch {
	case e.closed:
		return ErrClosed
	case e.off > e.size || e.n > e.size-e.off:
		return ErrOutOfRange
	case e.multi:
		return ErrMulticastRead
	}
	return ErrMisaligned
}

// loadable and storable take a power of two, and record a refused access.
func (w *Window) loadable(off, n uint64) bool {
	if w.storable(off, n) && !w.writeOnly.Load() {
		return true
	}
	w.refuse(off, n, false, true)
	return false
}

func (w *Window) storable(off, n uint64) bool {
	return off&(n-1) == 0 && off < w.size && !w.closed.Load()
}

func (w *Window) refuse(off, n uint64, store, loads bool) {
	multi := loads && w.writeOnly.Load()
	w.fault.CompareAndSwap(nil, &accessError{off, n, w.size, w.name, w.closed.Load(), store, multi})
}

// Err returns the error of the first refused access, or nil. It matches ErrMisaligned,
// ErrOutOfRange, ErrClosed or ErrMulticastRead.
func (w *Window) Err() error {
	if e := w.fault.Load(); e != nil {
		return e
	}
	return nil
}

// Load8 loads one byte.
func (w *Window) Load8(off uint64) uint8 {
	if !w.loadable(off, 1) {
		return 0xFF
	}
	if w.io != nil {
		return uint8(w.io.Load(off, 1))
	}
	return load8(w.mem.at(off))
}

// Load16 loads at a multiple of 2.
func (w *Window) Load16(off uint64) uint16 {
	if !w.loadable(off, 2) {
		return 0xFFFF
	}
	if w.io != nil {
		return uint16(w.io.Load(off, 2))
	}
	return load16(w.mem.at(off))
}

// Load32 loads at a multiple of 4.
func (w *Window) Load32(off uint64) uint32 {
	if !w.loadable(off, 4) {
		return allOnes
	}
	if w.io != nil {
		return uint32(w.io.Load(off, 4))
	}
	return load32(w.mem.at(off))
}

// Load64 loads at a multiple of 8.
func (w *Window) Load64(off uint64) uint64 {
	if !w.loadable(off, 8) {
		return 1<<64 - 1
	}
	if w.io != nil {
		return w.io.Load(off, 8)
	}
	return load64(w.mem.at(off))
}

// Store8 stores one byte.
func (w *Window) Store8(off uint64, v uint8) {
	switch {
	case !w.storable(off, 1):
		w.refuse(off, 1, true, false)
	case w.io != nil:
		w.io.Store(off, 1, uint64(v))
	default:
		store8(w.mem.at(off), v)
	}
}

// Store16 stores at a multiple of 2.
func (w *Window) Store16(off uint64, v uint16) {
	switch {
	case !w.storable(off, 2):
		w.refuse(off, 2, true, false)
	case w.io != nil:
		w.io.Store(off, 2, uint64(v))
	default:
		store16(w.mem.at(off), v)
	}
}

// Store32 stores at a multiple of 4.
func (w *Window) Store32(off uint64, v uint32) {
	switch {
	case !w.storable(off, 4):
		w.refuse(off, 4, true, false)
	case w.io != nil:
		w.io.Store(off, 4, uint64(v))
	default:
		store32(w.mem.at(off), v)
	}
}

// Store64 stores at a multiple of 8.
func (w *Window) Store64(off uint64, v uint64) {
	switch {
	case !w.storable(off, 8):
		w.refuse(off, 8, true, false)
	case w.io != nil:
		w.io.Store(off, 8, v)
	default:
		store64(w.mem.at(off), v)
	}
}

// Read copies from L1 or DRAM, not registers, in loads of 4 and 8 bytes.
func (w *Window) Read(off uint64, p []byte) {
	if !w.span(off, len(p), false) {
		for i := range p {
			p[i] = 0xFF
		}
		return
	}
	if w.io != nil {
		w.io.Read(off, p)
		return
	}
	w.mem.read(off, p)
}

// Write stores every byte once, in ascending order, by aligned stores of 4 and 8 bytes. Partial
// words at the edges are read and written back, not atomically; a multicast window can't have them.
func (w *Window) Write(off uint64, p []byte) {
	switch {
	case !w.span(off, len(p), true):
	case w.io != nil:
		w.io.Write(off, p)
	default:
		w.mem.write(off, p)
	}
}

func (w *Window) span(off uint64, n int, store bool) bool {
	if off <= w.size && uint64(n) <= w.size-off && !w.closed.Load() &&
		(!w.writeOnly.Load() || store && off&3 == 0 && n&3 == 0) {
		return true
	}
	w.refuse(off, uint64(n), store, true)
	return false
}

// Drain makes earlier stores leave the processor. PCIe writes are posted: a later load from the
// same window proves their arrival.
func (w *Window) Drain() { fence() }

// Publish makes earlier stores to host memory visible before the next store to the window. amd64
// orders an uncached store after earlier ones (Intel SDM volume 3A, "Memory ordering").
func (w *Window) Publish() {
	if runtime.GOARCH != "amd64" || w.caching != Uncached {
		fence()
	}
}

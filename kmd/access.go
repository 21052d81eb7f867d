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

// aligned takes a power of two.
func (w *Window) aligned(off uint64, width int) bool {
	return off&uint64(width-1) == 0 && off < w.size && !w.closed.Load()
}

func (w *Window) refuse(off uint64, n int, store, loads bool) {
	multi := loads && w.writeOnly.Load()
	w.fault.CompareAndSwap(nil, &accessError{off, uint64(n), w.size, w.name, w.closed.Load(), store, multi})
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
func (w *Window) Load8(off uint64) uint8 { return uint8(w.load(off, 1)) }

// Load16 loads at a multiple of 2.
func (w *Window) Load16(off uint64) uint16 { return uint16(w.load(off, 2)) }

// Load32 loads at a multiple of 4.
func (w *Window) Load32(off uint64) uint32 { return uint32(w.load(off, 4)) }

// Load64 loads at a multiple of 8.
func (w *Window) Load64(off uint64) uint64 { return w.load(off, 8) }

func (w *Window) load(off uint64, width int) uint64 {
	if !w.aligned(off, width) || w.writeOnly.Load() {
		w.refuse(off, width, false, true)
		return 1<<64 - 1
	}
	return w.io.Load(off, width)
}

// Store8 stores one byte.
func (w *Window) Store8(off uint64, v uint8) { w.store(off, 1, uint64(v)) }

// Store16 stores at a multiple of 2.
func (w *Window) Store16(off uint64, v uint16) { w.store(off, 2, uint64(v)) }

// Store32 stores at a multiple of 4.
func (w *Window) Store32(off uint64, v uint32) { w.store(off, 4, uint64(v)) }

// Store64 stores at a multiple of 8.
func (w *Window) Store64(off uint64, v uint64) { w.store(off, 8, v) }

func (w *Window) store(off uint64, width int, v uint64) {
	if !w.aligned(off, width) {
		w.refuse(off, width, true, false)
		return
	}
	w.io.Store(off, width, v)
}

// Read copies from L1 or DRAM, not registers, in loads of 4 and 8 bytes.
func (w *Window) Read(off uint64, p []byte) {
	if !w.span(off, len(p), false) {
		for i := range p {
			p[i] = 0xFF
		}
		return
	}
	w.io.Read(off, p)
}

// Write stores every byte once, in ascending order, by aligned stores of 4 and 8 bytes. Partial
// words at the edges are read and written back, not atomically; a multicast window can't have them.
func (w *Window) Write(off uint64, p []byte) {
	if w.span(off, len(p), true) {
		w.io.Write(off, p)
	}
}

func (w *Window) span(off uint64, n int, store bool) bool {
	if off <= w.size && uint64(n) <= w.size-off && !w.closed.Load() &&
		(!w.writeOnly.Load() || store && off&3 == 0 && n&3 == 0) {
		return true
	}
	w.refuse(off, n, store, true)
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

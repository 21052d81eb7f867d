package kmd

import "unsafe"

//go:noescape
func prefetchWrite(p unsafe.Pointer)

// PrefetchWrite asks the processor to fetch the 256 bytes at the start of p, or less if p is shorter, for writing. It
// is a hint: a command ring is larger than the nearest caches, and fetching the lines of the next commands while the
// host does something else makes writing them cheaper.
func PrefetchWrite(p []byte) {
	if len(p) > 0 {
		prefetchWrite(unsafe.Pointer(unsafe.SliceData(p)))
	}
}

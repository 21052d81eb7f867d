//go:build amd64 || arm64

package prefetch

import "unsafe"

//go:noescape
func write(p unsafe.Pointer)

// Write prefetches [Bytes] from p on for writing. It is a hint: it changes no memory and never
// faults.
func Write[T any](p *T) { write(unsafe.Pointer(p)) }

//go:build amd64 || arm64

package prefetch

import "unsafe"

//go:noescape
func write(p unsafe.Pointer)

// Write asks the processor to fetch [Bytes] from p on for writing, and to take them away from other
// processors, whatever lies there. It is a hint, which changes no memory and doesn't fault: who
// writes something else first finds the lines in the cache.
func Write[T any](p *T) { write(unsafe.Pointer(p)) }

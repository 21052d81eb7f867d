//go:build amd64 || arm64

package callsite

// returnAddress follows the frame pointers, which Go keeps on these architectures, from its caller's frame to that of its caller's caller,
// and returns what is beside: the address that the latter returns to.
//
//go:noescape
func returnAddress() uintptr

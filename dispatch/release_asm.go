//go:build !race && (amd64 || arm64 || riscv64)

package dispatch

// storeRelease stores v behind everything that was stored and loaded before it. sync/atomic has only stores that later
// loads wait for as well.
//
//go:noescape
func storeRelease(p *uint32, v uint32)

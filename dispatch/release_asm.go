//go:build !race && (amd64 || arm64 || riscv64)

package dispatch

// storeRelease stores v after all earlier loads and stores. sync/atomic has only stores that order later loads as well.
//
//go:noescape
func storeRelease(p *uint32, v uint32)

//go:build !race && (amd64 || arm64 || riscv64)

// Package release has a store that makes what a goroutine has written before visible to whoever
// loads it atomically.
package release

// Store stores v after all earlier loads and stores. sync/atomic has only stores that order later
// loads as well.
//
//go:noescape
func Store(p *uint32, v uint32)

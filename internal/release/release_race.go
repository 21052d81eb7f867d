//go:build race || !(amd64 || arm64 || riscv64)

// Package release has a store that makes what a goroutine has written before visible to whoever
// loads it atomically.
package release

import "sync/atomic"

// Store is a store that the race detector sees, and that every architecture has.
func Store(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

//go:build race || !(amd64 || arm64 || riscv64)

package dispatch

import "sync/atomic"

// storeRelease is a store that the race detector sees, and that every architecture has.
func storeRelease(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

//go:build race || !(amd64 || arm64 || riscv64)

// Package release has a store that publishes a goroutine's earlier writes to atomic loads.
package release

import "sync/atomic"

// Store stores v.
func Store(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

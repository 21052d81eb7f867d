//go:build !race && (amd64 || arm64 || riscv64)

// Package release has a store that publishes a goroutine's earlier writes to atomic loads.
package release

// Store stores v after all earlier loads and stores. The stores of sync/atomic order later loads
// too.
//
//go:noescape
func Store(p *uint32, v uint32)

//go:build !amd64

package usage

import "sync/atomic"

// store writes a word of a record. Only atomic stores become visible in order.
func store(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

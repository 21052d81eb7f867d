//go:build !amd64

package usage

import "sync/atomic"

// store writes a word between the two stores of a record's sequence. Only atomic stores become
// visible in order.
func store(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

//go:build race

package dispatch

import "sync/atomic"

// storeRelease is a store that the race detector sees.
func storeRelease(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

//go:build amd64 || arm64

package measure

const hasNonTemporal = true

// storeNonTemporal writes a cache line past the caches.
//
//go:noescape
func storeNonTemporal(dst *byte, src *[64]byte)

//go:build !amd64 && !arm64

package bench

// hasNonTemporal: the base instruction set has no such stores.
const hasNonTemporal = false

func storeNonTemporal(*byte, *[64]byte) {}

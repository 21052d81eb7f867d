//go:build !amd64 && !arm64

package measure

// hasNonTemporal: the base instruction set has no such stores.
const hasNonTemporal = false

func storeNonTemporal(*byte, *[64]byte) {}

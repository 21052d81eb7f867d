//go:build !amd64 && !arm64

package prefetch

// Write does nothing: other base instruction sets have no prefetch.
func Write[T any](*T) {}

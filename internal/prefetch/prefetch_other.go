//go:build !amd64 && !arm64

package prefetch

// Write does nothing: the base instruction sets of other processors have no prefetch.
func Write[T any](*T) {}

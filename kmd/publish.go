package kmd

import "runtime"

// Publish makes earlier stores to host memory visible before the next store to the window, as a doorbell needs. On amd64
// uncached stores are never reordered with earlier stores (Intel SDM volume 3A, "Memory ordering"), so it does nothing for
// an uncached window.
func (w *Window) Publish() {
	if runtime.GOARCH != "amd64" || w.caching != Uncached {
		fence()
	}
}

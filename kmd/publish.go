package kmd

import "runtime"

// Publish orders what was stored to host memory before it in front of the next store to the window, as a doorbell
// needs. On amd64 uncached stores already stay behind all earlier ones (Intel SDM volume 3A, "Memory ordering"), so
// there is nothing to do for an uncached window.
func (w *Window) Publish() {
	if runtime.GOARCH != "amd64" || w.caching != Uncached {
		fence()
	}
}

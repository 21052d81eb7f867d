//go:build unix && !linux

package kmd

// hugeFlags: no driver pins memory here, so nothing needs huge pages.
func hugeFlags(int) (int, bool) { return 0, false }

// settle has nothing to do where no driver pins memory.
func settle([]byte, int, int) error { return nil }

// onHeap knows nothing where no driver pins memory.
func onHeap(uint64) bool { return false }

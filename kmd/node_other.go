//go:build !linux

package kmd

import "github.com/reprise-tt/reprise/internal/seam"

// systemNode is a device node of the running system.
type systemNode string

// String names the node.
func (n systemNode) String() string { return string(n) }

// Open fails: Tenstorrent's driver is for Linux.
func (n systemNode) Open(int) (seam.File, error) { return nil, ErrUnsupportedSystem }

// hugeFlags reports false: no driver pins memory here.
func hugeFlags(int) (int, bool) { return 0, false }

// settle does nothing: no driver pins memory here.
func settle([]byte, int, int) error { return nil }

// onHeap returns false: no driver pins memory here.
func onHeap(uint64) bool { return false }

//go:build !linux

package kmd

import "github.com/reprise-tt/reprise/internal/seam"

type systemNode string

func (n systemNode) String() string { return string(n) }

func (n systemNode) Open(int) (seam.File, error) { return nil, ErrUnsupportedSystem }

func hugeFlags(int) (int, bool)     { return 0, false }
func settle([]byte, int, int) error { return nil }
func onHeap(uint64) bool            { return false }

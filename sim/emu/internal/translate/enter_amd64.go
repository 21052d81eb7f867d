//go:build linux && !purego

package translate

import "unsafe"

// enter runs code from entry. It returns what code leaves in its registers.
//
//go:noescape
func enter(code, entry uintptr, x, l1, flags, local unsafe.Pointer, l1Bytes, localBytes uint32, end int32) (next, newEnd int32, why Exit)

func makeCode(p *program) ([]byte, []int32) { return makeX86(p) }

//go:build !linux || !(amd64 || arm64) || purego

package translate

import "github.com/reprise-tt/reprise/sim/emu/internal/rv32"

// Available reports whether this host can run translated code.
const Available = false

// Memory holds code.
type Memory struct{}

// Translate returns nil: there is no code for this host.
func (*Memory) Translate(uint32, int, []rv32.Op, *Registers, []int) *Code { return nil }

// Close does nothing.
func (*Memory) Close() {}

func enter(_, _ uintptr, _ *Machine, _ int32) (next, newEnd int32, why Exit) {
	panic("translate: no code runs on this host")
}

// Package live makes call stacks of the processors of a running device. It pauses a processor while
// it reads registers and stack, and identifies the kernel by the launch message and the bytes in
// L1. Snapshots can be unwound later.
package live

import (
	"context"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/core"
)

const patience = 2 * time.Second // to pause: an emulator on a busy machine needs its turn

// Of returns the call stack of a processor, pausing it meanwhile. A processor in reset has no
// frames; one that can't be paused has its current function.
func (c *Catalogue) Of(ctx context.Context, dev core.Device, l *abi.Layout, virtual chip.XY, p chip.Processor) (Stack, error) {
	all, err := Take(ctx, dev, []Place{{XY: virtual, Processor: p}}, patience)
	if err != nil {
		return Stack{Processor: p}, err
	}
	s := &all[0]
	if s.Err != nil {
		return s.Stack, s.Err
	}
	_, err = c.Unwind(s, l, func(addr uint32, b []byte) error { return dev.Read(virtual, uint64(addr), b) })
	return s.Stack, err
}

// Package live makes call stacks of the processors of a device that runs: it pauses a processor for
// as long as it takes to read its registers and stack (package debug/core), finds out which kernel
// it has by the launch message and the bytes in L1, and lets it go on. What it read can be kept,
// and unwound later.
package live

import (
	"context"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/core"
)

// patience is how long a processor of a running device may take to pause: an emulator on a busy
// machine needs its turn.
const patience = 2 * time.Second

// Of returns the call stack of a processor. It is paused for that, unless it is already, and
// resumed. A processor in reset has no frames; of one that can't be paused there is the function
// that it is in.
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

package ttsim

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/serve/function"
)

// The simulator only acknowledges Wormhole's reset on request.
type firmware struct {
	message atomic.Uint32
	reset   atomic.Pointer[func()]
}

// OnResetAsked implements driver.ResetAsker.
func (f *Function) OnResetAsked(ask func()) { f.firmware.reset.Store(&ask) }

func (w *firmware) stored(off, v uint64) {
	switch {
	case off == message:
		w.message.Store(uint32(v))
	case off == interrupt && v&interruptBit != 0 && w.message.Swap(0)&0xFF == messageReset:
		if ask := w.reset.Load(); ask != nil {
			(*ask)()
		}
	}
}

// controller models a part of Wormhole's PCIe controller that the simulator lacks: while a bit of
// two scratch registers is set, accesses to host memory reach the controller's own registers
// (tt-kmd wormhole.c, open_dbi), by which the driver keeps the device control register over a
// reset.
type controller struct {
	open    atomic.Uint32 // bit 0: for reads, bit 1: for writes
	control atomic.Uint32
}

const (
	message       = 0x1FF30074 // a message to the firmware, sent by a store to interrupt (tt-kmd wormhole.c)
	interrupt     = 0x1FF30100
	interruptBit  = 1 << 16
	messageReset  = 0x56
	scratchRead   = 0x1FF30078 // in BAR 0, and in BAR 4 as the driver maps that
	scratchWrite  = 0x1FF3007C
	bar4Start     = 0x1E000000
	controlOpen   = 1 << 21
	deviceControl = 0x78 // where host memory starts
)

// stored sees a store before the simulator. Closing the registers waits for earlier stores, which
// this side answers.
func (f *Function) stored(bar int, off, v uint64) {
	if bar == 4 {
		bar, off = 0, off+bar4Start
	}
	if bar != 0 || f.Arch() != chip.Wormhole {
		return
	}
	f.firmware.stored(off, v)
	if off != scratchRead && off != scratchWrite {
		return
	}
	bit := uint32(1)
	if off == scratchWrite {
		bit = 2
	}
	if v&controlOpen != 0 {
		f.controller.open.Or(bit)
	} else if f.controller.open.Load()&bit != 0 {
		f.sim.current.Load().client.Load(f.address(0, off), 4)
		f.controller.open.And(^bit)
	}
}

// access returns false for host memory.
func (c *controller) access(t *function.Transfer, bus uint64) bool {
	open := c.open.Load()
	if open == 0 || bus != deviceControl || len(t.Data) != 4 {
		return false
	}
	switch {
	case !t.Write && open&1 != 0:
		binary.LittleEndian.PutUint32(t.Data, c.control.Load())
	case t.Write && open&2 != 0:
		c.control.Store(binary.LittleEndian.Uint32(t.Data))
	default:
		return false
	}
	return true
}

func (c *controller) reset() {
	c.open.Store(0)
	c.control.Store(0)
}

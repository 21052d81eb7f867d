package emu

import "github.com/reprise-tt/reprise/chip"

// Launches follows the programs that a host's firmware starts on Tensix tiles, by tt-metal's go
// messages: words whose highest byte is a signal. Each processor executes one instruction in a
// clock then, and no processor is ahead of another by more than a short slice or a probe.
// Processors that run one instruction at a time, for checks, aren't followed.
type Launches struct {
	Go      uint32 // L1 address of the messages
	Entries uint32
	Index   uint32 // L1 address of the number of the message in use, if there are several
	Code    uint32 // where kernels begin: firmware is below
	// Ended is called when a tile has executed a program, whose launch message is still in L1. The
	// chip waits for it.
	Ended func(*Launch, ReadCore)
}

// ReadCore reads a processor's memory, as [Chip.ReadCore].
type ReadCore func(tile chip.XY, p chip.Processor, addr uint32, b []byte) bool

// Launch is a tile's execution of a program, in the chip's clocks. Events of a tile are in order.
type Launch struct {
	Chip  *chip.Chip // Topology of the chip
	Tile  chip.XY    // raw NoC 0 coordinate
	Index uint32     // of the go message
	// Start is when the first processor saw the go message, End when firmware stored another
	// signal.
	Start, End uint64
	// Kernels is when each processor entered its kernel, or saw the go message in it, and left it;
	// 0 without a kernel.
	Kernels [chip.NumProcessors][2]uint64
}

const goSignal = 0x80 // tt-metal dev_msgs.h, RUN_MSG_GO

// launches is a tile's.
type launches struct {
	of         *Launches
	clock      func(chip.Processor) uint64
	read       ReadCore
	sent, runs bool
	inside     [chip.NumProcessors]bool // a kernel
	now        Launch
	latest     uint64 // event
}

// signalled handles a store to the go messages, of BRISC's firmware if a program has ended.
func (w *launches) signalled(l1 []uint32) {
	index := uint32(0)
	if w.of.Entries > 1 {
		index = l1[w.of.Index>>2]
	}
	if index >= w.of.Entries {
		return
	}
	sent := l1[w.of.Go>>2+index]>>24 == goSignal
	ended := w.runs && !sent
	w.sent, w.runs, w.now.Index = sent && !w.runs, w.runs && sent, index
	if ended {
		w.now.End = w.time(chip.BRISC)
		w.of.Ended(&w.now, w.read)
	}
}

// at follows where a processor executes.
func (w *launches) at(p chip.Processor, pc uint32) {
	inside := pc >= w.of.Code
	if !w.sent && inside == w.inside[p] {
		return
	}
	now := w.time(p)
	if w.sent {
		w.sent, w.runs = false, true
		w.now.Start, w.now.Kernels = now, [chip.NumProcessors][2]uint64{}
		for p, inside := range w.inside {
			if inside {
				w.now.Kernels[p][0] = now
			}
		}
	}
	k := &w.now.Kernels[p]
	switch {
	case inside == w.inside[p] || !w.runs:
	case inside && k[0] == 0:
		k[0] = now
	case !inside:
		k[1] = now
	}
	w.inside[p] = inside
}

func (w *launches) time(p chip.Processor) uint64 {
	w.latest = max(w.latest, w.clock(p))
	return w.latest
}

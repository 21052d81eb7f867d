package tracebuf

import "github.com/reprise-tt/reprise/chip"

// Setup is what a host stores on a device before the first replay, beside the bring-up of this
// runtime: programs of Ethernet tiles, such as the routers of TT-NN's fabric, and what kernels find
// in L1.
type Setup struct {
	Links []chip.Link // of the device with others; chips are devices in the order of the capture
	Ops   []SetupOp
}

// SetupOp is a store or a wait. Those of all devices are done in the order of their turns.
type SetupOp struct {
	Turn  int
	Wait  bool      // until each tile has the bytes, a word
	Tiles []chip.XY // raw
	Addr  uint64
	Bytes []byte
}

package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// Observer is a second PCI function of a chip, for tools, with its own TLB windows. Refusals give
// the observer all ones and stop nothing; checks don't refuse; a stopped chip still answers. Stores
// to host memory, the PCIe controller and configuration space do nothing.
type Observer struct {
	chip    *Chip
	tlb     []uint32
	half    []uint8
	refused error
}

var _ driver.Function = (*Observer)(nil)

// Observe returns a new observer of the chip.
func (c *Chip) Observe() *Observer {
	return &Observer{chip: c, tlb: make([]uint32, len(c.tlb)), half: make([]uint8, len(c.half))}
}

func (o *Observer) access(perform func(c *Chip)) bool {
	c := o.chip
	defer c.leave(c.visit())
	if c.closed {
		return false
	}
	fault := c.fault
	c.fault, c.observed = nil, &o.refused
	c.tlb, o.tlb, c.half, o.half = o.tlb, c.tlb, o.half, c.half
	o.refused = nil
	perform(c)
	c.tlb, o.tlb, c.half, o.half = o.tlb, c.tlb, o.half, c.half
	c.fault, c.observed = fault, nil
	return o.refused == nil
}

// ConfigRead implements driver.Function.
func (o *Observer) ConfigRead(off uint32) (v uint32) {
	if !o.access(func(c *Chip) { v = c.configRead(off) }) {
		return uint32(allOnes(4))
	}
	return v
}

// ConfigWrite does nothing.
func (o *Observer) ConfigWrite(uint32, uint32) {}

// BARLoad implements driver.Function.
func (o *Observer) BARLoad(bar int, off uint64, width int) (v uint64) {
	if !o.access(func(c *Chip) { v = c.loadBAR(bar, off, width) }) {
		return allOnes(width)
	}
	return v
}

// BARStore implements driver.Function.
func (o *Observer) BARStore(bar int, off uint64, width int, v uint64) {
	if bar != 2 {
		o.access(func(c *Chip) { c.store(bar, off, width, v) })
	}
}

// BARRead implements driver.Function.
func (o *Observer) BARRead(bar int, off uint64, p []byte) {
	if len(p) > 0 && !o.access(func(c *Chip) { c.readBAR(bar, off, p) }) {
		fill(p, 0xFF)
	}
}

// BARWrite implements driver.Function.
func (o *Observer) BARWrite(bar int, off uint64, p []byte) {
	if len(p) > 0 && bar != 2 {
		o.access(func(c *Chip) { c.writeBAR(bar, off, p) })
	}
}

// AttachDMA does nothing.
func (o *Observer) AttachDMA(driver.DMA) {}

// Fault is always nil: the observer outlives what stops the chip.
func (o *Observer) Fault() error { return nil }

// Close does nothing.
func (o *Observer) Close() error { return nil }

// ReadTile reads memory or registers of the tile at a raw or translated NoC 0 coordinate. The error
// is a *Refusal.
func (o *Observer) ReadTile(at chip.XY, addr uint64, p []byte) error {
	return o.tile(at, addr, p, func(c *Chip, ep *endpoint, buf []uint32) bool {
		if !c.readTile(origin{loads: true}, "tile", 0, ep, addr, len(p), buf) {
			return false
		}
		word.Unpack(p, addr, buf)
		return true
	})
}

// WriteTile writes p as ReadTile reads.
func (o *Observer) WriteTile(at chip.XY, addr uint64, p []byte) error {
	return o.tile(at, addr, p, func(c *Chip, ep *endpoint, buf []uint32) bool {
		word.Pack(buf, addr, p)
		return c.writeTile(origin{}, "tile", 0, ep, addr, len(p), buf)
	})
}

// tile performs an access; buf holds p as it lies in memory at addr.
func (o *Observer) tile(at chip.XY, addr uint64, p []byte, perform func(*Chip, *endpoint, []uint32) bool) error {
	if len(p) == 0 {
		return nil
	}
	ok := o.access(func(c *Chip) {
		if ep := c.resolve(origin{}, "tile", 0, uint32(at.X)|uint32(at.Y)<<6); ep != nil {
			perform(c, ep, c.words(word.Span(addr, len(p))))
		}
	})
	switch {
	case o.refused != nil:
		return o.refused
	case !ok:
		return ErrClosed
	}
	return nil
}

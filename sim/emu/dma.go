package emu

import "github.com/reprise-tt/reprise/chip"

// The controller's DMA engines, channel 0 of each (tt-umd device/tt_device/*_tt_device.cpp, ttsim
// src/libttsim.cpp). A transfer completes inside the doorbell store.

// dmaRegister returns the DMA register at a BAR 2 offset, or nil.
func (c *Chip) dmaRegister(off uint64) *uint32 {
	ok := false
	if c.arch == chip.Wormhole {
		switch off {
		case 0x00C, 0x010, 0x02C, 0x030, 0x054, 0x060, 0x064, 0x068, 0x06C, 0x070, 0x0A8, 0x0CC, 0x0D0, 0x0D4, 0x0D8,
			0x0DC, 0x200, 0x208, 0x20C, 0x210, 0x214, 0x218, 0x300, 0x308, 0x30C, 0x310, 0x314, 0x318:
			ok = true
		}
	} else {
		switch off {
		case 0x100, 0x104, 0x11C, 0x120, 0x124, 0x128, 0x12C, 0x188, 0x190, 0x194, 0x1A0, 0x1A4, 0x1A8:
			ok = true
		}
	}
	if !ok {
		return nil
	}
	return &c.pcie.dma[off/4]
}

func (c *Chip) dmaReg64(lo uint64) uint64 {
	return uint64(*c.dmaRegister(lo)) | uint64(*c.dmaRegister(lo + 4))<<32
}

// doorbell starts a transfer if off is a doorbell.
func (c *Chip) doorbell(off uint64, v uint32) {
	if c.arch == chip.Blackhole {
		if off == 0x104 && c.channelOK(off, v, 1) && c.transfer(c.dmaReg64(0x120), c.dmaReg64(0x128), *c.dmaRegister(0x11C), true) {
			*c.dmaRegister(0x11C) = 0
		}
		return
	}
	switch off {
	case 0x30:
		if c.channelOK(off, v, 0) && c.transfer(c.dmaReg64(0x30C), c.dmaReg64(0x314), *c.dmaRegister(0x308), true) {
			c.notifyHost(c.dmaReg64(0x0CC), *c.dmaRegister(0x0DC))
		}
	case 0x10:
		if c.channelOK(off, v, 0) && c.transfer(c.dmaReg64(0x214), c.dmaReg64(0x20C), *c.dmaRegister(0x208), false) {
			c.notifyHost(c.dmaReg64(0x060), *c.dmaRegister(0x070))
		}
	}
}

func (c *Chip) channelOK(off uint64, v, want uint32) bool {
	if v != want {
		c.refuse(origin{}, UnimplementedFunctionality, "dma", off, "doorbell = %#x: want %d", v, want)
	}
	return v == want
}

func (c *Chip) notifyHost(bus uint64, v uint32) {
	c.writeHost(origin{}, "dma", bus, bus, []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
}

// transfer moves n bytes between host memory and the TLB windows of BAR 0.
func (c *Chip) transfer(bus, dev uint64, n uint32, toDevice bool) bool {
	bad := func(cat Category, format string, args ...any) bool {
		c.refuse(origin{}, cat, "dma", dev, format, args...)
		return false
	}
	switch {
	case n == 0 || n&3 != 0:
		return bad(UndefinedBehavior, "transfer of %d bytes: want a multiple of 4", n)
	case dev>>32 != 0:
		return bad(UnimplementedFunctionality, "device address has more than 32 bits")
	case dev&3 != 0:
		return bad(UndefinedBehavior, "device address is not a multiple of 4")
	}
	if _, ok := c.inWindows(0, dev+uint64(n)-1); !ok {
		return bad(UnimplementedFunctionality, "%d bytes at %#x reach beyond the TLB windows of BAR 0", n, dev)
	}
	for off := uint64(0); off < uint64(n) && c.fault == nil; {
		p := c.pcie.staging(int(min(4096, uint64(n)-off)))
		// Windows use the staging bytes only for the PCIe tile, which no DMA targets through a
		// window.
		p = append([]byte(nil), p...)
		if toDevice {
			if c.readHost(origin{}, "dma", bus+off, bus+off, p) {
				c.windowWrite(0, dev+off, p)
			}
		} else {
			c.windowRead(0, dev+off, p)
			if c.fault == nil {
				c.writeHost(origin{}, "dma", bus+off, bus+off, p)
			}
		}
		off += uint64(len(p))
	}
	return c.fault == nil
}

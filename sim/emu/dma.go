package emu

import (
	"encoding/binary"
	"fmt"
)

// bar2Load loads a register of the PCIe controller; unknown ones are zero.
func (c *Chip) bar2Load(off uint64) uint32 {
	if r, i, ok := c.iatuAt(off); ok {
		if w := r.word(c.arch, i); w != nil {
			return *w
		}
		return 0
	}
	if w := c.dmaRegister(off); w != nil {
		return *w
	}
	return 0
}

func (c *Chip) bar2Store(off uint64, v uint32) {
	if r, i, ok := c.iatuAt(off); ok {
		slot := int(off-uint64(c.params.PCI.IATUBase)) / 0x100
		w := r.word(c.arch, i)
		if w == nil {
			c.refuse(origin{}, unimplemented, "bar2", off, "iATU register %#x", i)
			return
		}
		*w = v
		if c.wormhole() && i == 0x0C {
			r[iatuLimitHigh] = v // a region lies within 4 GiB
		}
		if cat, why := c.checkIATU(slot, r, i, v); why != "" {
			c.refuse(origin{}, cat, "bar2", off, "iATU region %d: %s", slot/2, why)
		}
		return
	}
	if w := c.dmaRegister(off); w != nil {
		*w = v
		c.doorbell(off, v)
		return
	}
	c.refuse(origin{}, unimplemented, "bar2", off, "store to a register that is not emulated")
}

func (c *Chip) iatuAt(off uint64) (*iatuRegion, uint32, bool) {
	base := uint64(c.params.PCI.IATUBase)
	if off < base || off >= base+0x100*uint64(len(c.pcie.iatu)) {
		return nil, 0, false
	}
	return &c.pcie.iatu[(off-base)/0x100], uint32(off-base) % 0x100, true
}

// checkIATU says what is wrong with a region after register i became v.
func (c *Chip) checkIATU(slot int, r *iatuRegion, i, v uint32) (Category, string) {
	if slot&1 == 1 { // inbound: tt-kmd sets up only this one, on Wormhole
		switch {
		case c.blackhole(), slot/2 != 1:
			return unimplemented, "inbound regions are not emulated, other than Wormhole's region 1"
		case i == 0x00 && v != 0, i == 0x04 && v&iatuEnable != 0 && v != 0xC8000400, i == 0x14 && v != 0x1E000000, i == 0x18 && v != 0:
			return unimplemented, fmt.Sprintf("register %#x = %#x: want BAR 4 to show BAR 0 at 0x1e000000", i, v)
		case i != 0x00 && i != 0x04 && i != 0x14 && i != 0x18:
			return unimplemented, fmt.Sprintf("register %#x of an inbound region", i)
		}
		return 0, ""
	}
	if base, limit, _, on := r.bounds(); on {
		last := c.params.PCI.NOCSize - 1
		if base > limit {
			return undefined, fmt.Sprintf("base %#x is above limit %#x", base, limit)
		}
		if limit > last {
			return undefined, fmt.Sprintf("limit %#x is outside the window, which ends at %#x", limit, last)
		}
	}
	if c.blackhole() {
		switch {
		case i == 0x00 && v&^(1<<13) != 0, i == 0x04 && v&^iatuEnable != 0, i == 0x1C && v != 0:
			return unimplemented, fmt.Sprintf("control register %#x = %#x", i, v)
		}
	}
	return 0, ""
}

func (c *Chip) dmaRegister(off uint64) *uint32 {
	ok := false
	if c.wormhole() {
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

// doorbell starts a transfer, which ends inside the store, if off is a doorbell of the controller's
// DMA engines (tt-umd device/tt_device/*_tt_device.cpp, ttsim src/libttsim.cpp).
func (c *Chip) doorbell(off uint64, v uint32) {
	if c.blackhole() {
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
		c.refuse(origin{}, unimplemented, "dma", off, "doorbell = %#x: want %d", v, want)
	}
	return v == want
}

func (c *Chip) notifyHost(bus uint64, v uint32) {
	c.writeHost(origin{}, "dma", bus, bus, binary.LittleEndian.AppendUint32(nil, v))
}

func (c *Chip) transfer(bus, dev uint64, n uint32, toDevice bool) bool {
	bad := c.refuser(origin{}, "dma", dev)
	switch {
	case n == 0 || n&3 != 0:
		return bad(undefined, "transfer of %d bytes: want a multiple of 4", n)
	case dev>>32 != 0:
		return bad(unimplemented, "device address has more than 32 bits")
	case dev&3 != 0:
		return bad(undefined, "device address is not a multiple of 4")
	}
	if _, ok := c.inWindows(0, dev+uint64(n)-1); !ok {
		return bad(unimplemented, "%d bytes at %#x reach beyond the TLB windows of BAR 0", n, dev)
	}
	for off := uint64(0); off < uint64(n) && c.fault == nil; {
		p := c.pcie.staging(int(min(4096, uint64(n)-off)))
		// Windows use the staging bytes, too.
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

package emu

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// DMA is host memory as the chip reaches it.
type DMA = driver.DMA

var (
	_ driver.Function   = (*Chip)(nil)
	_ driver.Resetter   = (*Chip)(nil)
	_ driver.ResetAsker = (*Chip)(nil)
)

// iatuRegion is an address translation region of the PCIe controller.
type iatuRegion struct {
	ctrl1, ctrl2, ctrl3 uint32
	base, limit, target uint64
}

const iatuEnable = 1 << 31

// pcie is the PCIe tile: configuration space, the iATU, DMA engines and the window to host memory.
type pcie struct {
	command, cacheLine, interrupt uint32
	bar                           [6]uint32

	iatu [32]iatuRegion // even: outbound region i/2; odd: inbound
	dma  [256]uint32    // DMA engine registers by BAR 2 offset / 4
	dbi  uint32

	host  DMA
	peers driver.PeerDMA // the same, where it leads to other cards
	asks  *request       // the NoC read that reads host memory now, or nil
	bytes []byte         // staging for host memory
}

// bus translates a NoC address of the PCIe tile to a bus address (tt-isa-documentation
// WormholeB0/PCIExpressTile/README.md; tt-kmd blackhole.c).
func (c *Chip) bus(o origin, where string, addr uint64, n int) (uint64, bool) {
	bad := func(cat Category, format string, args ...any) (uint64, bool) {
		c.refuse(o, cat, where, addr, format, args...)
		return 0, false
	}
	var off uint64
	if c.arch == chip.Wormhole {
		off = addr - c.params.PCI.NOCBase
		if addr < c.params.PCI.NOCBase || off+uint64(n) > c.params.PCI.NOCSize {
			return bad(UnimplementedFunctionality, "%d bytes outside the window to host memory, %#x bytes at %#x",
				n, c.params.PCI.NOCSize, c.params.PCI.NOCBase)
		}
	} else {
		// Windows of 2^58 bytes: 0-3 bypass the iATU, 4-7 go through it.
		off = addr & (1<<58 - 1)
		if off+uint64(n) > 1<<58 || addr>>58 >= 8 {
			return bad(UnimplementedFunctionality, "%d bytes outside the windows to host memory", n)
		}
		if addr>>58 < 4 {
			return off, true
		}
	}
	bus, matched := off, false
	for i := 0; i < len(c.pcie.iatu); i += 2 {
		r := &c.pcie.iatu[i]
		if r.ctrl2&iatuEnable == 0 {
			continue
		}
		if off >= r.base && off+uint64(n)-1 <= r.limit {
			if matched {
				return bad(UndefinedBehavior, "%d bytes at offset %#x match several iATU regions", n, off)
			}
			bus, matched = r.target+off-r.base, true
		}
	}
	return bus, true
}

// hostError refuses an access to host memory that the driver did not allow: no mapping, or none
// attached.
func (c *Chip) hostError(o origin, where string, addr, bus uint64, n int, err error) bool {
	c.refuse(o, UndefinedBehavior, where, addr, "%d bytes of host memory at bus address %#x: %v", n, bus, err)
	return false
}

func (c *Chip) readHost(o origin, where string, addr, bus uint64, p []byte) bool {
	if c.pcie.host == nil {
		c.refuse(o, ConfigurationError, where, addr, "access to host memory, and none is attached")
		return false
	}
	if err := c.pcie.host.ReadHost(bus, p); err != nil {
		if q := c.pcie.asks; q != nil {
			if q.away = q.askPeer(bus, len(p)); q.away {
				return true
			}
		}
		return c.hostError(o, where, addr, bus, len(p), err)
	}
	return true
}

func (c *Chip) writeHost(o origin, where string, addr, bus uint64, p []byte) bool {
	if c.pcie.host == nil {
		c.refuse(o, ConfigurationError, where, addr, "access to host memory, and none is attached")
		return false
	}
	if err := c.pcie.host.WriteHost(bus, p); err != nil {
		return c.hostError(o, where, addr, bus, len(p), err)
	}
	return true
}

// staging returns n bytes to pass to DMA.
func (p *pcie) staging(n int) []byte {
	if cap(p.bytes) < n {
		p.bytes = make([]byte, max(n, 16<<10))
	}
	return p.bytes[:n]
}

const (
	dbiControl     = 0x78
	controllerSize = 1 << 20 // of the PCIe controller's registers
)

// While this bit is in Wormhole's scratch registers 6 and 7, loads and stores to host memory reach
// the controller's own registers instead (tt-kmd wormhole.c open_dbi).
const dbiEnable = 1 << 21

// dbiWord is the register of Wormhole's controller that an access to host memory reaches in that
// mode. It refuses others.
func (c *Chip) dbiWord(o origin, where string, addr uint64, n int) (*uint32, bool) {
	if n == 4 && addr == c.params.PCI.NOCBase+dbiControl {
		return &c.pcie.dbi, true
	}
	c.refuse(o, UnimplementedFunctionality, where, addr,
		"%d bytes of the PCIe controller's registers, which host memory gives way to now: only the device control register is emulated", n)
	return nil, false
}

// controllerHas reports whether a register of Wormhole's PCIe controller that is not emulated is at
// an address: after the window to host memory (tt-isa-documentation
// WormholeB0/PCIExpressTile/README.md), or in its place in that mode.
func (c *Chip) controllerHas(addr uint64) bool {
	off := addr - c.params.PCI.NOCBase
	return c.arch == chip.Wormhole && (off >= c.params.PCI.NOCSize && off < 1<<32 || c.dbiOpen(6) && off < controllerSize && off != dbiControl)
}

func (c *Chip) dbiOpen(scratch int) bool {
	return c.arch == chip.Wormhole && c.arc.Scratch(scratch)&dbiEnable != 0
}

func (c *Chip) readPCIe(o origin, where string, ep *endpoint, noc int, addr uint64, n int, buf []uint32) bool {
	if c.arch == chip.Blackhole && addr >= c.params.PCI.DBIBase {
		const niu = 0xFFFF_FFFF_FF00_0000
		if n != 4 || addr&3 != 0 {
			c.refuse(o, UndefinedBehavior, where, addr, "%d bytes of PCIe registers: want 4, aligned", n)
			return false
		}
		v, ok := uint32(0), false
		switch dbi := c.params.PCI.DBIBase; {
		case addr >= niu && o.tile == nil:
			v, ok = c.pcieNIU(o, noc, addr-niu)
		case addr == dbi+dbiControl:
			v, ok = c.pcie.dbi, true
		case addr < dbi+controllerSize && o.isHostLoad():
			ok = true
		}
		if !ok {
			c.refuse(o, UnimplementedFunctionality, where, addr, "register of the PCIe tile that is not emulated")
		}
		buf[0] = v
		return ok
	}
	if o.isHostLoad() && c.arch == chip.Wormhole && c.showsNIU(o, ep.kind, addr, n) {
		return c.readNIU(o, ep, noc, addr, buf)
	}
	if o.isHostLoad() && n == 4 && c.controllerHas(addr) {
		buf[0] = 0
		return true
	}
	if c.dbiOpen(6) {
		w, ok := c.dbiWord(o, where, addr, n)
		if ok {
			buf[0] = *w
		}
		return ok
	}
	bus, ok := c.bus(o, where, addr, n)
	if !ok {
		return false
	}
	if c.check != nil && !c.check.ReadHost(o.checked(), bus, n) {
		return false
	}
	p := c.pcie.staging(n)
	if !c.readHost(o, where, addr, bus, p) {
		return false
	}
	word.Pack(buf, addr, p)
	return true
}

func (c *Chip) writePCIe(o origin, where string, ep *endpoint, addr uint64, n int, buf []uint32) bool {
	if c.arch == chip.Blackhole && addr >= c.params.PCI.DBIBase {
		if n != 4 || addr != c.params.PCI.DBIBase+dbiControl {
			c.refuse(o, UnimplementedFunctionality, where, addr, "store of %d bytes to a register of the PCIe tile that is not emulated", n)
			return false
		}
		c.pcie.dbi = buf[0]
		return true
	}
	if c.dbiOpen(7) {
		w, ok := c.dbiWord(o, where, addr, n)
		if ok {
			*w = buf[0]
		}
		return ok
	}
	bus, ok := c.bus(o, where, addr, n)
	if !ok {
		return false
	}
	if c.check != nil && !c.check.WroteHost(o.checked(), bus, n) {
		return false
	}
	p := c.pcie.staging(n)
	word.Unpack(p, addr, buf)
	return c.writeHost(o, where, addr, bus, p)
}

// pcieNIU answers for the NIUs of the PCIe tile.
func (c *Chip) pcieNIU(o origin, noc int, off uint64) (uint32, bool) {
	for xy := range c.topology.Tiles(chip.PCIe) {
		if !c.topology.Tile(xy).Harvested {
			return c.edgeNIU(o, xy, noc, off)
		}
	}
	return 0, false
}

// Configuration space.

// ConfigRead reads the 32-bit word of PCI configuration space at off, a multiple of 4. Words that
// the emulator does not have read as zero, as an empty capability does.
func (c *Chip) ConfigRead(off uint32) uint32 {
	c.acquire()
	defer c.release()
	p, pci := &c.pcie, &c.params.PCI
	switch off {
	case 0x00:
		return uint32(pci.Vendor) | uint32(pci.Device)<<16
	case 0x04:
		return p.command
	case 0x08:
		return pci.Class<<8 | uint32(pci.Revision)
	case 0x0C:
		return p.cacheLine
	case 0x10, 0x14, 0x18, 0x1C, 0x20, 0x24:
		return p.bar[(off-0x10)/4]
	case 0x2C: // the subsystem is the kind of board
		return uint32(pci.Vendor) | uint32(uint16(c.serial()>>36))<<16
	case 0x3C:
		return p.interrupt
	}
	return 0
}

// ConfigWrite writes a word of PCI configuration space: command, cache line, BARs (so that they can
// be sized) and the interrupt line. Other words ignore it.
func (c *Chip) ConfigWrite(off, v uint32) {
	c.acquire()
	defer c.release()
	p := &c.pcie
	set := func(w *uint32, mask uint32) { *w = *w&^mask | v&mask }
	switch off {
	case 0x04:
		set(&p.command, 0xFFFF)
	case 0x0C:
		set(&p.cacheLine, 0xFFFF)
	case 0x3C:
		set(&p.interrupt, 0xFF)
	case 0x10, 0x14, 0x18, 0x1C, 0x20, 0x24:
		i := (off - 0x10) / 4
		mask := ^(c.params.PCI.BARSize[i&^1] - 1)
		set(&p.bar[i], uint32(mask>>(32*(i&1))))
	}
}

// initConfigSpace assigns BARs as a BIOS does.
func (c *Chip) initConfigSpace() {
	for i, base := range map[int]uint64{0: 0x1_0000_0000, 2: 0x1_2000_0000, 4: 0x8_0000_0000} {
		c.pcie.bar[i] = uint32(base) | 4 // 64-bit memory
		c.pcie.bar[i+1] = uint32(base >> 32)
	}
	c.pcie.interrupt = 0xFF
}

// BAR 2.

// bar2Load loads a register of the PCIe controller; those that aren't emulated are zero.
func (c *Chip) bar2Load(off uint64) uint32 {
	if r, i, ok := c.iatuAt(off); ok {
		v, _ := r.get(c.arch, i)
		return v
	}
	if w := c.dmaRegister(off); w != nil {
		return *w
	}
	return 0 // one of the controller's other registers
}

func (c *Chip) bar2Store(off uint64, v uint32) {
	if r, i, ok := c.iatuAt(off); ok {
		slot := int(off-uint64(c.params.PCI.IATUBase)) / 0x100
		if !r.set(c.arch, i, v) {
			c.refuse(origin{}, UnimplementedFunctionality, "bar2", off, "iATU register %#x", i)
		} else if cat, why := c.checkIATU(slot, r, i, v); why != "" {
			c.refuse(origin{}, cat, "bar2", off, "iATU region %d: %s", slot/2, why)
		}
		return
	}
	if w := c.dmaRegister(off); w != nil {
		*w = v
		c.doorbell(off, v)
		return
	}
	c.refuse(origin{}, UnimplementedFunctionality, "bar2", off, "store to a register that is not emulated")
}

// iatuAt returns the region and register offset at a BAR 2 offset.
func (c *Chip) iatuAt(off uint64) (*iatuRegion, uint32, bool) {
	base := uint64(c.params.PCI.IATUBase)
	if off < base || off >= base+0x100*uint64(len(c.pcie.iatu)) {
		return nil, 0, false
	}
	return &c.pcie.iatu[(off-base)/0x100], uint32(off-base) % 0x100, true
}

func (r *iatuRegion) get(a chip.Arch, i uint32) (uint32, bool) {
	switch i {
	case 0x00:
		return r.ctrl1, true
	case 0x04:
		return r.ctrl2, true
	case 0x08:
		return uint32(r.base), true
	case 0x0C:
		return uint32(r.base >> 32), true
	case 0x10:
		return uint32(r.limit), true
	case 0x14:
		return uint32(r.target), true
	case 0x18:
		return uint32(r.target >> 32), true
	}
	if a == chip.Blackhole {
		switch i {
		case 0x1C:
			return r.ctrl3, true
		case 0x20:
			return uint32(r.limit >> 32), true
		}
	}
	return 0, false
}

func (r *iatuRegion) set(a chip.Arch, i, v uint32) bool {
	lo := func(w *uint64) { *w = *w>>32<<32 | uint64(v) }
	hi := func(w *uint64) { *w = *w&0xFFFFFFFF | uint64(v)<<32 }
	switch i {
	case 0x00:
		r.ctrl1 = v
	case 0x04:
		r.ctrl2 = v
	case 0x08:
		lo(&r.base)
	case 0x0C:
		hi(&r.base)
		if a == chip.Wormhole {
			hi(&r.limit) // a region lies within 4 GiB
		}
	case 0x10:
		lo(&r.limit)
	case 0x14:
		lo(&r.target)
	case 0x18:
		hi(&r.target)
	case 0x1C, 0x20:
		if a != chip.Blackhole {
			return false
		}
		if i == 0x1C {
			r.ctrl3 = v
		} else {
			hi(&r.limit)
		}
	default:
		return false
	}
	return true
}

// checkIATU says what is wrong with a region after register i of it became v.
func (c *Chip) checkIATU(slot int, r *iatuRegion, i, v uint32) (Category, string) {
	if slot&1 == 1 { // inbound: only the one mapping that tt-kmd sets up on Wormhole exists
		switch {
		case c.arch == chip.Blackhole, slot/2 != 1:
			return UnimplementedFunctionality, "inbound regions are not emulated, other than Wormhole's region 1"
		case i == 0x00 && v != 0, i == 0x04 && v&iatuEnable != 0 && v != 0xC8000400, i == 0x14 && v != 0x1E000000, i == 0x18 && v != 0:
			return UnimplementedFunctionality, fmt.Sprintf("register %#x = %#x: want BAR 4 to show BAR 0 at 0x1e000000", i, v)
		case i != 0x00 && i != 0x04 && i != 0x14 && i != 0x18:
			return UnimplementedFunctionality, fmt.Sprintf("register %#x of an inbound region", i)
		}
		return 0, ""
	}
	if r.ctrl2&iatuEnable != 0 {
		last := c.params.PCI.NOCSize - 1
		if r.base > r.limit {
			return UndefinedBehavior, fmt.Sprintf("base %#x is above limit %#x", r.base, r.limit)
		}
		if r.limit > last {
			return UndefinedBehavior, fmt.Sprintf("limit %#x is outside the window, which ends at %#x", r.limit, last)
		}
	}
	if c.arch == chip.Blackhole {
		switch {
		case i == 0x00 && v&^(1<<13) != 0, i == 0x04 && v&^iatuEnable != 0, i == 0x1C && v != 0:
			return UnimplementedFunctionality, fmt.Sprintf("control register %#x = %#x", i, v)
		}
	}
	return 0, ""
}

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

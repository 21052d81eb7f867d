package emu

import (
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

// iatuRegion is the registers of an address translation region of the PCIe controller: controls 1
// and 2, base, limit's low half, target; and on Blackhole control 3 and limit's high half.
type iatuRegion [9]uint32

const (
	iatuLimitHigh = 8
	iatuEnable    = 1 << 31 // of control 2
)

// word returns the register at an offset, or nil.
func (r *iatuRegion) word(a chip.Arch, off uint32) *uint32 {
	if n := uint32(len(r)); off&3 != 0 || off/4 >= n || a == chip.Wormhole && off/4 >= n-2 {
		return nil
	}
	return &r[off/4]
}

func (r *iatuRegion) bounds() (base, limit, target uint64, enabled bool) {
	join := func(lo, hi int) uint64 { return uint64(r[hi])<<32 | uint64(r[lo]) }
	return join(2, 3), join(4, iatuLimitHigh), join(5, 6), r[1]&iatuEnable != 0
}

// pcie is the PCIe tile: configuration space, iATU, DMA engines and the window to host memory.
type pcie struct {
	command, cacheLine, interrupt uint32
	bar                           [6]uint32

	iatu [32]iatuRegion // even: outbound region i/2; odd: inbound
	dma  [256]uint32    // by BAR 2 offset / 4
	dbi  uint32

	host  DMA
	peers driver.PeerDMA // host, if it leads to other cards
	asks  *request       // the NoC read of host memory under way, or nil
	// attend takes what other cards have left.
	attend func()
	bytes  []byte // staging for host memory
}

// bus translates a NoC address of the PCIe tile to a bus address (tt-isa-documentation
// WormholeB0/PCIExpressTile/README.md; tt-kmd blackhole.c).
func (c *Chip) bus(o origin, where string, addr uint64, n int) (uint64, bool) {
	bad := func(cat Category, format string, args ...any) (uint64, bool) {
		return 0, c.refuse(o, cat, where, addr, format, args...)
	}
	var off uint64
	if c.wormhole() {
		off = addr - c.params.PCI.NOCBase
		if addr < c.params.PCI.NOCBase || off+uint64(n) > c.params.PCI.NOCSize {
			return bad(unimplemented, "%d bytes outside the window to host memory, %#x bytes at %#x",
				n, c.params.PCI.NOCSize, c.params.PCI.NOCBase)
		}
	} else {
		// Windows of 2^58 bytes: 0-3 bypass the iATU, 4-7 go through it.
		off = addr & (1<<58 - 1)
		if off+uint64(n) > 1<<58 || addr>>58 >= 8 {
			return bad(unimplemented, "%d bytes outside the windows to host memory", n)
		}
		if addr>>58 < 4 {
			return off, true
		}
	}
	bus, matched := off, false
	for i := 0; i < len(c.pcie.iatu); i += 2 {
		if base, limit, target, on := c.pcie.iatu[i].bounds(); on && off >= base && off+uint64(n)-1 <= limit {
			if matched {
				return bad(undefined, "%d bytes at offset %#x match several iATU regions", n, off)
			}
			bus, matched = target+off-base, true
		}
	}
	return bus, true
}

func (c *Chip) hostError(o origin, where string, addr, bus uint64, n int, err error) bool {
	return c.refuse(o, undefined, where, addr, "%d bytes of host memory at bus address %#x: %v", n, bus, err)
}

func (c *Chip) readHost(o origin, where string, addr, bus uint64, p []byte) bool {
	if c.pcie.host == nil {
		return c.refuse(o, misconfigured, where, addr, "access to host memory, and none is attached")
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
		return c.refuse(o, misconfigured, where, addr, "access to host memory, and none is attached")
	}
	if err := c.pcie.host.WriteHost(bus, p); err != nil {
		return c.hostError(o, where, addr, bus, len(p), err)
	}
	return true
}

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

// While scratch registers 6 and 7 have this bit, loads and stores of Wormhole's host memory reach
// the controller's registers (tt-kmd wormhole.c open_dbi).
const dbiEnable = 1 << 21

func (c *Chip) dbiWord(o origin, where string, addr uint64, n int) (*uint32, bool) {
	if n == 4 && addr == c.params.PCI.NOCBase+dbiControl {
		return &c.pcie.dbi, true
	}
	return nil, c.refuse(o, unimplemented, where, addr,
		"%d bytes of the PCIe controller's registers, in place of host memory: only device control is emulated", n)
}

// controllerHas reports a register of Wormhole's PCIe controller that is not emulated
// (tt-isa-documentation WormholeB0/PCIExpressTile/README.md).
func (c *Chip) controllerHas(addr uint64) bool {
	off := addr - c.params.PCI.NOCBase
	return c.wormhole() && (off >= c.params.PCI.NOCSize && off < 1<<32 || c.dbiOpen(6) && off < controllerSize && off != dbiControl)
}

func (c *Chip) dbiOpen(scratch int) bool {
	return c.wormhole() && c.arc.Scratch(scratch)&dbiEnable != 0
}

func (c *Chip) readPCIe(o origin, where string, ep *endpoint, noc int, addr uint64, n int, buf []uint32) bool {
	if c.blackhole() && addr >= c.params.PCI.DBIBase {
		const niu = 0xFFFF_FFFF_FF00_0000
		if n != 4 || addr&3 != 0 {
			return c.refuse(o, undefined, where, addr, "%d bytes of PCIe registers: want 4, aligned", n)
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
			c.refuse(o, unimplemented, where, addr, "register of the PCIe tile that is not emulated")
		}
		buf[0] = v
		return ok
	}
	if o.isHostLoad() && c.wormhole() && c.showsNIU(o, ep.kind, addr, n) {
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
	if c.blackhole() && addr >= c.params.PCI.DBIBase {
		if n != 4 || addr != c.params.PCI.DBIBase+dbiControl {
			return c.refuse(o, unimplemented, where, addr, "store of %d bytes to a register of the PCIe tile that is not emulated", n)
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

func (c *Chip) pcieNIU(o origin, noc int, off uint64) (uint32, bool) {
	for xy := range c.topology.Tiles(chip.PCIe) {
		if !c.topology.Tile(xy).Harvested {
			return c.edgeNIU(o, xy, noc, off)
		}
	}
	return 0, false
}

// initConfigSpace assigns BARs as a BIOS does.
func (c *Chip) initConfigSpace() {
	for i, base := range map[int]uint64{0: 0x1_0000_0000, 2: 0x1_2000_0000, 4: 0x8_0000_0000} {
		c.pcie.bar[i] = uint32(base) | 4 // 64-bit memory
		c.pcie.bar[i+1] = uint32(base >> 32)
	}
	c.pcie.interrupt = 0xFF
}

// askPeer sends a NoC read on to another card, if it goes there.
func (q *request) askPeer(bus uint64, n int) bool {
	c := q.tile.chip
	if c.pcie.peers == nil {
		return false
	}
	f := *q
	f.data = nil
	return c.pcie.peers.ReadPeer(bus, n, func(p []byte) {
		c.inbox.post(c, func(*Chip) { f.answered(p) })
		c.pcie.attend()
	})
}

// answered completes a NoC read with another card's answer.
func (q *request) answered(p []byte) {
	c := q.tile.chip
	if c.tileAt(q.tile.xy) != q.tile {
		return // the chip was reset meanwhile
	}
	word.Pack(q.buffer(), q.fromAddr, p)
	if c.cfg.Delay > 0 {
		c.schedule(c.clock+c.someTime(), q, stepRespond)
		return
	}
	q.respond()
}

package emu

import "github.com/reprise-tt/reprise/chip"

// arc is as much of the ARC processor and its tile as start-up code asks for: the reset unit with
// scratch registers, messages, and a telemetry table in its memory (tt-isa-documentation
// WormholeB0/ARCTile; tt-umd device/arc).
type arc struct {
	csm     [arcCSMBytes / 4]uint32
	values  uint32    // address of the telemetry values
	beats   [2]uint32 // offsets in csm of words that count up while the firmware runs; 0 for none
	scratch [8]uint32
	ram     [16]uint32 // Blackhole: SCRATCH_RAM
	misc    uint32
	aiclk   uint32 // MHz
	forced  bool   // a message has set it
	spi     spiController
	clockAt []uint32 // offsets in csm of telemetry values of AICLK: their low halves
}

const (
	arcCSMBytes  = 512 << 10
	arcCSMBase   = 0x10000000
	arcAPBBase   = 0x80000000
	arcAPBBytes  = 1 << 20
	arcResetUnit = 0x30000

	// Places in ARC memory. They are chosen here: software finds them through pointers.
	arcTelemetryTable = 0x100
	arcQueueControl   = 0x500
	arcQueues         = 0x600
	arcQueueCount     = 4
	arcQueueEntries   = 8
	arcFlashBuffer    = 0x60000 // where messages leave what they read from flash
	arcFlashBytes     = 4096

	// Where Wormhole's firmware has the telemetry of earlier releases (tt-umd
	// smbus_arc_telemetry_reader.hpp).
	arcFlatTelemetry = 0x78D60
)

// serial is the number of the chip's board: of an n150 or a p150 if the chip wasn't given one.
func (c *Chip) serial() uint64 {
	switch {
	case c.cfg.Identity.Board != 0:
		return c.cfg.Identity.Board
	case c.arch == chip.Wormhole:
		return chip.BoardN150<<36 | 1
	}
	return chip.BoardP150<<36 | 1
}

// clocks are the frequencies of AICLK in MHz when a host has said that the chip is idle or busy
// (tt-umd *_implementation.hpp AICLK_IDLE_VAL, AICLK_BUSY_VAL), and the one before a host has said
// anything.
func (c *Chip) clocks() (idle, busy, first uint32) {
	if c.arch == chip.Wormhole {
		return 500, 1000, 1000
	}
	return 800, 1350, 1000
}

// setClock sets AICLK as telemetry and messages report it. The emulator's time doesn't depend on
// it.
func (c *Chip) setClock(mhz uint32) {
	a := &c.arc
	a.aiclk = mhz
	for _, at := range a.clockAt {
		a.csm[at/4] = a.csm[at/4]&^0xFFFF | mhz
	}
}

// enabledColumns is telemetry tag 34: bit i is the i-th column in the order of fuses (tt-umd
// blackhole_implementation.hpp HARVESTING_NOC_LOCATIONS).
func (c *Chip) enabledColumns() uint32 {
	v := uint32(0)
	for i, x := range [14]uint32{1, 16, 2, 15, 3, 14, 4, 13, 5, 12, 6, 11, 7, 10} {
		col := x - 1
		if x >= 10 {
			col = x - 3
		}
		if c.cfg.Harvesting.Tensix>>col&1 == 0 {
			v |= 1 << i
		}
	}
	return v
}

// harvestedRows is the result of Wormhole's message 0x57: bit i is the i-th row in the order of
// fuses (tt-umd wormhole_implementation.hpp HARVESTING_NOC_LOCATIONS).
func (c *Chip) harvestedRows() uint32 {
	v := uint32(0)
	for i, y := range [10]uint32{11, 1, 10, 2, 9, 3, 8, 4, 7, 5} {
		row := y - 1
		if y >= 7 {
			row = y - 2
		}
		if c.cfg.Harvesting.Tensix>>row&1 != 0 {
			v |= 1 << i
		}
	}
	return v
}

func (c *Chip) initARC() {
	a := &c.arc
	_, _, a.aiclk = c.clocks()
	values := c.initTelemetry()
	if c.arch == chip.Wormhole {
		a.scratch[0] = 0xC0DE0001 // firmware has booted
		// The queues' address counts from the start of the memory there (tt-kmd wormhole.c
		// send_arc_message).
		a.csm[arcQueueControl/4] = arcQueues
		a.csm[arcQueueControl/4+1] = arcQueueEntries | arcQueueCount<<8
		return
	}
	a.ram[2] = 5                        // started, ready for messages
	a.ram[10] = arcFlashBuffer | 12<<24 // 1 << 12 bytes (tt-umd blackhole_spi_tt_device.cpp)
	a.ram[11] = arcCSMBase + arcQueueControl
	a.ram[12] = values
	a.ram[13] = arcCSMBase + arcTelemetryTable
	a.csm[arcQueueControl/4] = arcCSMBase + arcQueues
	a.csm[arcQueueControl/4+1] = arcQueueEntries | arcQueueCount<<8
}

// arcOffset strips Wormhole's base of the ARC bus from a NoC address.
func (c *Chip) arcOffset(o origin, where string, addr uint64, n int) (uint64, bool) {
	if c.arch == chip.Blackhole {
		return addr, true
	}
	const xbar = 0x8_0000_0000
	if addr < xbar || addr+uint64(n) > xbar+0x1_0000_0000 {
		c.refuse(o, UnimplementedFunctionality, where, addr, "%d bytes of the ARC tile outside its bus at %#x", n, uint64(xbar))
		return 0, false
	}
	off := addr - xbar
	// ARC memory repeats in the reserved range after it: tt-umd reads telemetry there
	// (smbus_arc_telemetry_reader.hpp).
	if again := uint64(arcCSMBase + 1<<28); off >= again && off < again+arcCSMBytes {
		off -= 1 << 28
	}
	return off, true
}

func (c *Chip) readARC(o origin, where string, noc int, addr uint64, n int, buf []uint32) bool {
	if c.arch == chip.Wormhole && addr >= 0xF_FFB2_0000 && addr < 0xF_FFB4_0000 {
		if n != 4 || addr&0xFFFF&3 != 0 { // either NIU answers for the NoC by which it is asked (tt-umd tests/api/test_noc.cpp)
			c.refuse(o, UndefinedBehavior, where, addr, "%d bytes of the ARC tile's NIU: want 4, aligned", n)
			return false
		}
		v, ok := c.arcNIU(o, noc, addr&0xFFFF)
		if !ok {
			c.refuse(o, UnimplementedFunctionality, where, addr, "register %#x of the ARC tile's NIU", addr&0xFFFF)
		}
		buf[0] = v
		return ok
	}
	if o.isHostLoad() && c.arch == chip.Blackhole && c.showsNIU(o, chip.ARC, addr, n) {
		off, _ := c.niuAt(chip.ARC, addr)
		v, ok := c.arcNIU(o, noc, off)
		buf[0] = v
		return ok
	}
	off, ok := c.arcOffset(o, where, addr, n)
	if !ok {
		return false
	}
	switch {
	case off >= arcCSMBase && off < arcCSMBase+arcCSMBytes:
		off -= arcCSMBase
		if off+uint64(n) > arcCSMBytes {
			c.refuse(o, UndefinedBehavior, where, addr, "%d bytes reach beyond ARC memory", n)
			return false
		}
		if o.tile == nil {
			c.beat(off, n)
		}
		copy(buf, c.arc.csm[off>>2:][:span(off, n)])
		return true
	case off >= arcAPBBase && off < arcAPBBase+arcAPBBytes:
		if n != 4 || off&3 != 0 {
			c.refuse(o, UndefinedBehavior, where, addr, "%d bytes of ARC registers: want 4, aligned", n)
			return false
		}
		v, ok := c.arcLoad(o, uint32(off-arcAPBBase))
		if !ok && !(o.isHostLoad() && c.arcHas(uint32(off-arcAPBBase))) {
			c.refuse(o, UnimplementedFunctionality, where, addr, "load of an ARC register that is not emulated")
		}
		buf[0] = v
		return c.fault == nil
	}
	c.refuse(o, UnimplementedFunctionality, where, addr, "%d bytes of the ARC tile: nothing answers there", n)
	return false
}

func (c *Chip) writeARC(o origin, where string, addr uint64, n int, buf []uint32) bool {
	off, ok := c.arcOffset(o, where, addr, n)
	if !ok {
		return false
	}
	switch {
	case off >= arcCSMBase && off < arcCSMBase+arcCSMBytes:
		off -= arcCSMBase
		if off+uint64(n) > arcCSMBytes {
			c.refuse(o, UndefinedBehavior, where, addr, "%d bytes reach beyond ARC memory", n)
			return false
		}
		merge(c.arc.csm[:], off, buf, n)
		return true
	case off >= arcAPBBase && off < arcAPBBase+arcAPBBytes:
		if n != 4 || off&3 != 0 {
			c.refuse(o, UndefinedBehavior, where, addr, "%d bytes of ARC registers: want 4, aligned", n)
			return false
		}
		return c.arcStore(o, where, addr, uint32(off-arcAPBBase), buf[0])
	}
	c.refuse(o, UnimplementedFunctionality, where, addr, "%d bytes of the ARC tile: nothing answers there", n)
	return false
}

func (c *Chip) arcNIU(o origin, noc int, off uint64) (uint32, bool) {
	return c.edgeNIU(o, c.topology.ARC(), noc, off)
}

// arcHas reports whether there are registers at an offset of the ARC tile's bus of peripherals, and
// loading them does no harm (tt-isa-documentation WormholeB0/ARCTile/README.md, ResetUnit.md;
// tt-kmd blackhole.c).
func (c *Chip) arcHas(off uint32) bool {
	const unsafe = arcResetUnit + 0x328
	return off < 0x80000 && off != unsafe || c.arch == chip.Blackhole && off&^0xFFFF == 0xB0000
}

// arcScratch returns a scratch register of the reset unit; SCRATCH[1] of Wormhole is reserved.
func (c *Chip) arcScratch(off uint32) *uint32 {
	switch {
	case off >= 0x60 && off < 0x80 && !(c.arch == chip.Wormhole && off == 0x64):
		return &c.arc.scratch[(off-0x60)/4]
	case c.arch == chip.Blackhole && off >= 0x400 && off < 0x440:
		return &c.arc.ram[(off-0x400)/4]
	}
	return nil
}

func (c *Chip) arcLoad(o origin, off uint32) (uint32, bool) {
	switch {
	case off >= 0x50000 && off < 0x51000:
		return c.arcNIU(o, 0, uint64(off-0x50000))
	case off >= 0x58000 && off < 0x59000:
		return c.arcNIU(o, 1, uint64(off-0x58000))
	case c.hasSPI(off):
		return c.arc.spi.load(off - arcSPI), true
	case off < arcResetUnit || off >= arcResetUnit+0x10000:
		return 0, false
	}
	off -= arcResetUnit
	if c.arch == chip.Wormhole && spiPad(off) {
		return c.arc.spi.pads[off], true
	}
	if w := c.arcScratch(off); w != nil {
		return *w, true
	}
	switch off {
	case 0x0E0, 0x0E4: // reference clock, 27 MHz against a core clock of about 1 GHz
		return uint32(c.clock / 37 >> (off - 0xE0) / 4 * 32), true
	case 0x100:
		return c.arc.misc, true
	}
	if c.arch == chip.Wormhole {
		switch off {
		case 0x1D0:
			return arcCSMBase + arcTelemetryTable, true
		case 0x1D4:
			return c.arc.values, true
		case 0x1D8:
			return arcCSMBase + arcQueueControl, true
		}
	}
	return 0, false
}

const arcInterrupt = 1 << 16

func (c *Chip) arcStore(o origin, where string, addr uint64, off, v uint32) bool {
	if c.arch == chip.Blackhole && off >= 0xB0000 && off < 0xB1000 {
		return c.arcQueue(o, where, addr)
	}
	if c.hasSPI(off) {
		c.arc.spi.store(off-arcSPI, v)
		return true
	}
	if off >= arcResetUnit && off < arcResetUnit+0x10000 {
		off -= arcResetUnit
		if w := c.arcScratch(off); w != nil {
			*w = v
			return true
		}
		if c.arch == chip.Wormhole && spiPad(off) {
			c.arc.spi.storePad(off, v)
			return true
		}
		if off == 0x100 {
			c.arc.misc = v &^ arcInterrupt
			if v&arcInterrupt == 0 {
				return true
			}
			if !c.arcQueue(o, where, addr) || c.arch == chip.Blackhole {
				return c.fault == nil
			}
			if c.arc.scratch[5]&0xFF00 != chip.ARCMessagePresent { // the doorbell was for the queues
				return true
			}
			c.arcScratchMessage()
			return true
		}
	}
	c.refuse(o, UnimplementedFunctionality, where, addr, "store to an ARC register that is not emulated")
	return false
}

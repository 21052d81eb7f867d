package emu

import "github.com/reprise-tt/reprise/chip"

// arc is as much of the ARC processor and its tile as start-up code asks for: the reset unit with scratch registers,
// messages, and a telemetry table in its memory (tt-isa-documentation WormholeB0/ARCTile; tt-umd device/arc).
type arc struct {
	csm     [arcCSMBytes / 4]uint32
	values  uint32    // address of the telemetry values
	beats   [2]uint32 // offsets in csm of words that count up while the firmware runs; 0 for none
	scratch [8]uint32
	ram     [16]uint32 // Blackhole: SCRATCH_RAM
	misc    uint32
}

const (
	arcCSMBytes  = 512 << 10
	arcCSMBase   = 0x10000000
	arcAPBBase   = 0x80000000
	arcResetUnit = 0x30000

	// Places in ARC memory. They are chosen here: software finds them through pointers.
	arcTelemetryTable = 0x100
	arcQueueControl   = 0x500
	arcQueues         = 0x600
	arcQueueCount     = 4
	arcQueueEntries   = 8

	// Where Wormhole's firmware has the telemetry of earlier releases (tt-umd smbus_arc_telemetry_reader.hpp).
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

func (c *Chip) aiclk() uint32 { return 1000 }

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

// harvestedRows is the result of Wormhole's message 0x57: bit i is the i-th row in the order of fuses (tt-umd
// wormhole_implementation.hpp HARVESTING_NOC_LOCATIONS).
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
	values := c.initTelemetry()
	if c.arch == chip.Wormhole {
		a.scratch[0] = 0xC0DE0001 // firmware has booted
		// The queues' address counts from the start of the memory there (tt-kmd wormhole.c send_arc_message).
		a.csm[arcQueueControl/4] = arcQueues
		a.csm[arcQueueControl/4+1] = arcQueueEntries | arcQueueCount<<8
		return
	}
	a.ram[2] = 5 // started, ready for messages
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
	// ARC memory repeats in the reserved range after it: tt-umd reads telemetry there (smbus_arc_telemetry_reader.hpp).
	if again := uint64(arcCSMBase + 1<<28); off >= again && off < again+arcCSMBytes {
		off -= 1 << 28
	}
	return off, true
}

func (c *Chip) readARC(o origin, where string, noc int, addr uint64, n int, buf []uint32) bool {
	if c.arch == chip.Wormhole && addr >= 0xF_FFB2_0000 && addr < 0xF_FFB4_0000 {
		noc := int(addr >> 16 & 1)
		if n != 4 || addr&0xFFFF&3 != 0 {
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
	if o.inert() && c.arch == chip.Blackhole && c.showsNIU(o, chip.ARC, addr, n) {
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
	case off >= arcAPBBase && off < arcAPBBase+0x100000:
		if n != 4 || off&3 != 0 {
			c.refuse(o, UndefinedBehavior, where, addr, "%d bytes of ARC registers: want 4, aligned", n)
			return false
		}
		v, ok := c.arcLoad(o, uint32(off-arcAPBBase))
		if !ok && !(o.inert() && c.arcHas(uint32(off-arcAPBBase))) {
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
	case off >= arcAPBBase && off < arcAPBBase+0x100000:
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

// arcHas reports whether there are registers at an offset of the ARC tile's bus of peripherals, and loading them does no harm
// (tt-isa-documentation WormholeB0/ARCTile/README.md, ResetUnit.md; tt-kmd blackhole.c).
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
	case off < arcResetUnit || off >= arcResetUnit+0x10000:
		return 0, false
	}
	off -= arcResetUnit
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
	if off >= arcResetUnit && off < arcResetUnit+0x10000 {
		off -= arcResetUnit
		if w := c.arcScratch(off); w != nil {
			*w = v
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
			code := c.arc.scratch[5] & 0xFF
			if !c.arcMessage(o, where, addr, code, &c.arc.scratch[3]) {
				return false
			}
			c.arc.scratch[5] = code // exit code 0 in the high half
			return true
		}
	}
	c.refuse(o, UnimplementedFunctionality, where, addr, "store to an ARC register that is not emulated")
	return false
}

// arcMessage answers a message to the ARC firmware (tt-umd *_implementation.hpp arc_message_type; tt-kmd).
func (c *Chip) arcMessage(o origin, where string, addr uint64, code uint32, result *uint32) bool {
	wh := c.arch == chip.Wormhole
	switch {
	case code == 0x2C && wh: // where old telemetry is
		*result = arcCSMBase + arcFlatTelemetry
	case code == 0x34 && wh: // AICLK
		*result = c.aiclk()
	case code == 0x57: // harvesting
		*result = 0
		if wh {
			*result = c.harvestedRows()
		}
	case code == 0x58: // DRAM training
		*result = 1
	case code == 0x56:
		// Which of chip, board controller or both doesn't matter here: the argument is 0 or 3.
		if c.askReset != nil {
			c.askReset()
		}
	case code == 0xC7 && !wh:
	default:
		switch code {
		case 0x11, 0x21, 0x51, 0x52, 0x53, 0x54, 0x90, 0xA0, 0xA3, 0xB6, 0xB7, 0xBA, 0xBC, 0xC0, 0xC1:
			return true // accepted, and without effect on what is emulated
		}
		c.refuse(o, UnimplementedFunctionality, where, addr, "ARC message %#x", code)
		return false
	}
	return true
}

// arcQueue answers what is in the message queues (tt-umd device/arc/blackhole_arc_message_queue.cpp; tt-kmd msgqueue.c).
func (c *Chip) arcQueue(o origin, where string, addr uint64) bool {
	const header, entry = 32 / 4, 32 / 4
	m := c.arc.csm[:]
	for q := range uint32(arcQueueCount) {
		h := m[(arcQueues/4)+q*(header+2*arcQueueEntries*entry):][:header+2*arcQueueEntries*entry]
		waiting := (h[0] - h[4]) % (2 * arcQueueEntries)
		if waiting > arcQueueEntries {
			c.refuse(o, UndefinedBehavior, where, addr, "ARC message queue %d holds %d requests: it has room for %d", q, waiting, arcQueueEntries)
			return false
		}
		for range waiting {
			req := h[header+h[4]%arcQueueEntries*entry:][:entry]
			resp := h[header+(arcQueueEntries+h[5]%arcQueueEntries)*entry:][:entry]
			clear(resp)
			if !c.arcMessage(o, where, addr, req[0]&0xFF, &resp[0]) {
				return false
			}
			h[4] = (h[4] + 1) % (2 * arcQueueEntries)
			h[5] = (h[5] + 1) % (2 * arcQueueEntries)
		}
	}
	return true
}

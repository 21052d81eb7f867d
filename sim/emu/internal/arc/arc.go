// Package arc emulates the ARC processor and its tile, as far as start-up code asks: reset unit
// with scratch registers, messages, telemetry in memory, and an erased flash (tt-isa-documentation
// WormholeB0/ARCTile; tt-umd device/arc).
package arc

import (
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
	"github.com/reprise-tt/reprise/sim/emu/tensix"
)

// Config is what the firmware knows of its chip.
type Config struct {
	Arch       chip.Arch
	Harvesting chip.Harvesting
	Board      uint64 // serial number, with the kind of board in bits 36 to 51
	ASIC       uint64 // number of the chip
	Location   uint8  // of the chip on its board
	Static     bool   // the heartbeat counts loads, not time
	Ethernet   uint32 // version of its firmware
}

// Refused is an access that the tile doesn't answer.
type Refused struct {
	Category tensix.Category
	Detail   string
}

func (r *Refused) Error() string { return r.Detail }

func refused(cat tensix.Category, format string, args ...any) *Refused {
	return &Refused{cat, fmt.Sprintf(format, args...)}
}

// ARC is the processor with its tile.
type ARC struct {
	// AskReset, if not nil, is called for a message that asks for a reset.
	AskReset func()

	cfg     Config
	arch    chip.Arch
	csm     [csmBytes / 4]uint32
	values  uint32    // address of the telemetry values
	beats   [2]uint32 // offsets in csm of heartbeats; 0 for none
	beaten  [2]time.Time
	scratch [8]uint32
	ram     [16]uint32 // Blackhole: SCRATCH_RAM
	misc    uint32
	aiclk   uint32 // MHz
	forced  bool   // a message has set it
	spi     spiController
	clockAt []uint32 // offsets in csm of telemetry of AICLK, the low half
}

// Places on the ARC tile's bus.
const (
	// CSM is the processor's memory.
	CSM      = 0x10000000
	CSMBytes = csmBytes
	// APB is its peripherals.
	APB      = 0x80000000
	APBBytes = 1 << 20
)

const (
	csmBytes  = 512 << 10
	resetUnit = 0x30000

	// Places in ARC memory, chosen here: software finds them through pointers.
	telemetryTable = 0x100
	queueControl   = 0x500
	queues         = 0x600
	queueCount     = 4
	queueEntries   = 8
	flashBuffer    = 0x60000 // where messages leave what they read from flash
	flashBytes     = 4096

	// As in Wormhole's earlier releases (tt-umd smbus_arc_telemetry_reader.hpp).
	flatTelemetryAt = 0x78D60
)

// clocks are AICLK in MHz after a host's messages for idle and busy (tt-umd *_implementation.hpp
// AICLK_IDLE_VAL, AICLK_BUSY_VAL); firstClock is before any.
func (a *ARC) clocks() (idle, busy uint32) {
	if a.arch == chip.Wormhole {
		return 500, 1000
	}
	return 800, 1350
}

const firstClock = 1000

// setClock sets AICLK as reported; the emulator's time doesn't depend on it.
func (a *ARC) setClock(mhz uint32) {
	a.aiclk = mhz
	for _, at := range a.clockAt {
		a.csm[at/4] = a.csm[at/4]&^0xFFFF | mhz
	}
}

// enabledColumns is telemetry tag 34, by the order of fuses (tt-umd blackhole_implementation.hpp
// HARVESTING_NOC_LOCATIONS).
func (a *ARC) enabledColumns() uint32 {
	return ^a.fused(0, 13, 1, 12, 2, 11, 3, 10, 4, 9, 5, 8, 6, 7) & (1<<14 - 1)
}

// harvestedRows answers Wormhole's message 0x57, by the order of fuses (tt-umd
// wormhole_implementation.hpp HARVESTING_NOC_LOCATIONS).
func (a *ARC) harvestedRows() uint32 {
	return a.fused(9, 0, 8, 1, 7, 2, 6, 3, 5, 4)
}

// fused has a bit for each harvested row or column, in the order of fuses.
func (a *ARC) fused(order ...int) (v uint32) {
	for i, n := range order {
		v |= uint32(a.cfg.Harvesting.Tensix) >> n & 1 << i
	}
	return v
}

// New returns the processor after its firmware has started.
func New(cfg Config) *ARC {
	a := &ARC{cfg: cfg, arch: cfg.Arch, aiclk: firstClock}
	values := a.initTelemetry()
	if a.arch == chip.Wormhole {
		a.scratch[0] = 0xC0DE0001 // firmware has booted
		// The queues' address counts from the start of memory (tt-kmd wormhole.c send_arc_message).
		a.csm[queueControl/4] = queues
		a.csm[queueControl/4+1] = queueEntries | queueCount<<8
		return a
	}
	a.ram[2] = 5                     // ready for messages
	a.ram[10] = flashBuffer | 12<<24 // 1 << 12 bytes (tt-umd blackhole_spi_tt_device.cpp)
	a.ram[11] = CSM + queueControl
	a.ram[12] = values
	a.ram[13] = CSM + telemetryTable
	a.csm[queueControl/4] = CSM + queues
	a.csm[queueControl/4+1] = queueEntries | queueCount<<8
	return a
}

// Scratch returns a scratch register of the reset unit.
func (a *ARC) Scratch(i int) uint32 { return a.scratch[i] }

// offset strips Wormhole's base of the ARC bus from a NoC address.
func (a *ARC) offset(addr uint64, n int) (uint64, *Refused) {
	if a.arch == chip.Blackhole {
		return addr, nil
	}
	const xbar = 0x8_0000_0000
	if addr < xbar || addr+uint64(n) > xbar+0x1_0000_0000 {
		return 0, refused(tensix.UnimplementedFunctionality, "%d bytes of the ARC tile outside its bus at %#x", n, uint64(xbar))
	}
	off := addr - xbar
	// ARC memory repeats after it: tt-umd reads telemetry there (smbus_arc_telemetry_reader.hpp).
	if again := uint64(CSM + 1<<28); off >= again && off < again+csmBytes {
		off -= 1 << 28
	}
	return off, nil
}

// at finds n bytes at a NoC address: in memory, or of a register.
func (a *ARC) at(addr uint64, n int) (memory []uint32, off uint64, r *Refused) {
	if off, r = a.offset(addr, n); r != nil {
		return nil, 0, r
	}
	switch {
	case off >= CSM && off < CSM+csmBytes:
		if off -= CSM; off+uint64(n) > csmBytes {
			return nil, 0, refused(tensix.UndefinedBehavior, "%d bytes reach beyond ARC memory", n)
		}
		return a.csm[:], off, nil
	case off < APB || off >= APB+APBBytes:
		return nil, 0, refused(tensix.UnimplementedFunctionality, "%d bytes of the ARC tile: nothing answers there", n)
	case n != 4 || off&3 != 0:
		return nil, 0, refused(tensix.UndefinedBehavior, "%d bytes of ARC registers: want 4, aligned", n)
	}
	return nil, off - APB, nil
}

// Access is what a load of the tile depends on beside the address.
type Access struct {
	Host  bool                                          // the host's: the heartbeat goes on
	Looks bool                                          // a plain load: unknown registers are zero
	Clock uint64                                        // of the chip
	NIU   func(noc int, off uint64) (v uint32, ok bool) // loads a register of the tile's NIUs
}

// Read reads n bytes at a NoC address.
func (a *ARC) Read(by *Access, addr uint64, n int, buf []uint32) *Refused {
	memory, off, r := a.at(addr, n)
	switch {
	case r != nil:
		return r
	case memory != nil:
		if by.Host {
			a.beat(off, n)
		}
		copy(buf, memory[off>>2:][:word.Span(off, n)])
		return nil
	}
	v, ok := a.load(by, uint32(off))
	if buf[0] = v; !ok && !(by.Looks && a.has(uint32(off))) {
		return refused(tensix.UnimplementedFunctionality, "load of an ARC register that is not emulated")
	}
	return nil
}

// Write writes n bytes at a NoC address.
func (a *ARC) Write(addr uint64, n int, buf []uint32) *Refused {
	memory, off, r := a.at(addr, n)
	switch {
	case r != nil:
		return r
	case memory != nil:
		word.Merge(memory, off, buf, n)
		return nil
	}
	return a.store(uint32(off), buf[0])
}

// has reports registers that may be loaded (tt-isa-documentation WormholeB0/ARCTile/README.md,
// ResetUnit.md; tt-kmd blackhole.c).
func (a *ARC) has(off uint32) bool {
	const unsafe = resetUnit + 0x328
	return off < 0x80000 && off != unsafe || a.arch == chip.Blackhole && off&^0xFFFF == 0xB0000
}

// scratchAt returns a scratch register; Wormhole's SCRATCH[1] is reserved.
func (a *ARC) scratchAt(off uint32) *uint32 {
	switch {
	case off >= 0x60 && off < 0x80 && !(a.arch == chip.Wormhole && off == 0x64):
		return &a.scratch[(off-0x60)/4]
	case a.arch == chip.Blackhole && off >= 0x400 && off < 0x440:
		return &a.ram[(off-0x400)/4]
	}
	return nil
}

func (a *ARC) load(by *Access, off uint32) (uint32, bool) {
	switch {
	case off >= 0x50000 && off < 0x51000:
		return by.NIU(0, uint64(off-0x50000))
	case off >= 0x58000 && off < 0x59000:
		return by.NIU(1, uint64(off-0x58000))
	case a.hasSPI(off):
		return a.spi.load(off - spiBase), true
	case off < resetUnit || off >= resetUnit+0x10000:
		return 0, false
	}
	off -= resetUnit
	if a.arch == chip.Wormhole && spiPad(off) {
		return a.spi.pads[off], true
	}
	if w := a.scratchAt(off); w != nil {
		return *w, true
	}
	switch off {
	case 0x0E0, 0x0E4: // reference clock, 27 MHz against a core clock of about 1 GHz
		return uint32(by.Clock / 37 >> (off - 0xE0) / 4 * 32), true
	case 0x100:
		return a.misc, true
	}
	if a.arch == chip.Wormhole {
		switch off {
		case 0x1D0:
			return CSM + telemetryTable, true
		case 0x1D4:
			return a.values, true
		case 0x1D8:
			return CSM + queueControl, true
		}
	}
	return 0, false
}

const interrupt = 1 << 16

func (a *ARC) store(off, v uint32) *Refused {
	if a.arch == chip.Blackhole && off >= 0xB0000 && off < 0xB1000 {
		return a.queue()
	}
	if a.hasSPI(off) {
		a.spi.store(off-spiBase, v)
		return nil
	}
	if off >= resetUnit && off < resetUnit+0x10000 {
		off -= resetUnit
		if w := a.scratchAt(off); w != nil {
			*w = v
			return nil
		}
		if a.arch == chip.Wormhole && spiPad(off) {
			a.spi.storePad(off, v)
			return nil
		}
		if off == 0x100 {
			a.misc = v &^ interrupt
			if v&interrupt == 0 {
				return nil
			}
			if r := a.queue(); r != nil || a.arch == chip.Blackhole {
				return r
			}
			if a.scratch[5]&0xFF00 != chip.ARCMessagePresent { // the doorbell was for the queues
				return nil
			}
			a.scratchMessage()
			return nil
		}
	}
	return refused(tensix.UnimplementedFunctionality, "store to an ARC register that is not emulated")
}

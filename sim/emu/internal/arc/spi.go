package arc

import "github.com/reprise-tt/reprise/chip"

// spiController is Wormhole's SPI controller, a Synopsys DesignWare SSI, as far as reading an
// erased and protected flash takes (luwen spi.rs, tt-umd wormhole_spi_tt_device.cpp).
type spiController struct {
	regs    [64]uint32
	command []uint32 // frames for the flash
	frames  uint32   // that can be read
	pads    map[uint32]uint32
}

const (
	spiBase     = 0x70000
	spiCTRLR1   = 0x04
	spiSSIENR   = 0x08
	spiSER      = 0x10
	spiSR       = 0x28
	spiDR       = 0x60
	spiCommand  = 4 // frames of a command with an address
	flashRead   = 0x03
	flashStatus = 0x05
)

// spiPad reports SPI_CNTL and GPIO2_PAD_TRIEN_CNTL, _RXEN_CNTL and _DRV_CNTL.
func spiPad(off uint32) bool { return off == 0xF8 || off == 0x240 || off == 0x24C || off == 0x250 }

func (a *ARC) hasSPI(off uint32) bool {
	return a.arch == chip.Wormhole && off >= spiBase && off < spiBase+0x100
}

func (s *spiController) load(off uint32) uint32 {
	switch off {
	case spiSR:
		const writable, written, readable = 1 << 1, 1 << 2, 1 << 3
		switch {
		case s.regs[spiSSIENR/4] == 0:
			return 0
		case s.frames > 0:
			return writable | written | readable
		}
		return writable | written
	case spiDR:
		if s.frames == 0 {
			return 0
		}
		s.frames--
		if s.command[0] == flashRead {
			return 0xFF
		}
		return 0 // status: not busy
	}
	return s.regs[off/4]
}

func (s *spiController) store(off, v uint32) {
	switch off {
	case spiDR:
		if len(s.command) < spiCommand {
			s.command = append(s.command, v&0xFF)
		}
		return
	case spiSSIENR, spiSER:
		if off == spiSSIENR || v == 0 {
			s.command, s.frames = nil, 0
		} else if len(s.command) > 0 && (s.command[0] == flashRead || s.command[0] == flashStatus) {
			s.frames = s.regs[spiCTRLR1/4]&0xFFFF + 1
		}
	}
	s.regs[off/4] = v
}

func (s *spiController) storePad(off, v uint32) {
	if s.pads == nil {
		s.pads = map[uint32]uint32{}
	}
	s.pads[off] = v
}

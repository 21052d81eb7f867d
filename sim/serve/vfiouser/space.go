package vfiouser

import (
	"sync"

	"github.com/reprise-tt/reprise/chip"
)

const spaceSize = 4096

// Configuration space (PCI Express Base Specification 5.0, 7.5; PCI Local Bus Specification 3.0,
// 6.8 for MSI). The PCI Express capability is where the cards have it: tt-kmd blackhole.c reaches
// its device control register at 0x78.
const (
	regCommand   = 0x04
	regStatus    = 0x06
	regClass     = 0x08
	regCacheLine = 0x0C
	regBAR       = 0x10
	regSubsystem = 0x2C
	regCaps      = 0x34
	regLine      = 0x3C
	regPin       = 0x3D

	capPower   = 0x40
	capMSI     = 0x50
	capExpress = 0x70
	capErrors  = 0x100 // extended capabilities start here

	commandMaster  = 1 << 2
	commandNoIRQ   = 1 << 10
	commandMask    = 1<<1 | commandMaster | 1<<6 | 1<<8 | commandNoIRQ
	statusCaps     = 1 << 4
	statusErrors   = 0xF900
	msiEnable      = 1 << 0
	expressNoReset = 0x7FFF // device control without the function level reset, which the cards lack

	// Advanced error reporting, with the specification's power-on masks and severities.
	uncorrectable      = 0x005F_F030
	uncorrectableMask  = 0x0040_0000
	uncorrectableFatal = 0x0046_2030
	correctable        = 0x71C1
	correctableMask    = 0x6000
	errorsChecksums    = 1<<5 | 1<<7 // checksums of packets can be made and checked,
	errorsChecksumsOn  = 1<<6 | 1<<8 // if these are set

	// This bit in the interface timer makes the firmware reset the chip (tt-kmd pcie.c).
	timerControl = 0x930
	timerTarget  = 0x934
	timerPending = 1 << 4
)

type space struct {
	mu      sync.Mutex
	start   [spaceSize]byte // after power-on
	now     [spaceSize]byte
	mask    [spaceSize]byte // bits that stores change
	clear   [spaceSize]byte // bits that a store of 1 clears
	barSize [6]uint64
}

func newSpace(p *chip.Params, board uint16) *space {
	s := &space{barSize: p.PCI.BARSize}
	put16 := func(off int, v, mask uint16) {
		order.PutUint16(s.start[off:], v)
		order.PutUint16(s.mask[off:], mask)
	}
	put32 := func(off int, v, mask uint32) {
		order.PutUint32(s.start[off:], v)
		order.PutUint32(s.mask[off:], mask)
	}
	put16(0x00, p.PCI.Vendor, 0)
	put16(0x02, p.PCI.Device, 0)
	put16(regCommand, 0, commandMask)
	put16(regStatus, statusCaps, 0)
	put32(regClass, p.PCI.Class<<8|uint32(p.PCI.Revision), 0)
	put16(regCacheLine, 0, 0x00FF)
	for i := 0; i < len(s.barSize); i += 2 {
		n := s.barSize[i]
		if n == 0 {
			continue
		}
		kind := uint32(4) // 64-bit memory
		if i != 2 {       // windows, unlike registers, may be prefetched
			kind |= 8
		}
		put32(regBAR+4*i, kind, uint32(^(n-1))&^0xF)
		put32(regBAR+4*i+4, 0, uint32(^(n-1)>>32))
	}
	put16(regSubsystem, p.PCI.Vendor, 0)
	put16(regSubsystem+2, board, 0)
	s.start[regCaps] = capPower
	s.mask[regLine] = 0xFF
	s.start[regPin] = 1 // INTA

	put16(capPower, 0x01|capMSI<<8, 0)
	put16(capPower+2, 3, 0)         // version 1.2 of power management, no event
	put16(capPower+4, 1<<3, 0x0003) // the state stays when it wakes
	put16(capMSI, 0x05|capExpress<<8, 0)
	put16(capMSI+2, 1<<7, msiEnable|7<<4) // 64-bit addresses, one message
	put32(capMSI+4, 0, ^uint32(3))
	put32(capMSI+8, 0, ^uint32(0))
	put16(capMSI+12, 0, 0xFFFF)

	speed := uint16(4) // 16 GT/s
	if p.Arch == chip.Blackhole {
		speed = 5
	}
	const width = 16 << 4
	put16(capExpress, 0x10, 0)
	put16(capExpress+2, 2, 0)                         // version 2, endpoint
	put32(capExpress+0x04, 1<<15|1<<5|2, 0)           // errors by role, long tags, 512 bytes
	put16(capExpress+0x08, 0x2810, expressNoReset)    // requests of 512 bytes
	put32(capExpress+0x0C, uint32(speed)|width, 0)    // link
	put16(capExpress+0x10, 0, 0x01C3)                 // link control
	put16(capExpress+0x12, speed|width|1<<12, 0)      // link status
	put32(capExpress+0x24, 0x1F, 0)                   // timeouts
	put16(capExpress+0x28, 0, 0x001F)                 // device control 2
	put32(capExpress+0x2C, uint32(1<<(speed+1)-2), 0) // speeds
	put16(capExpress+0x30, speed, 0x007F)             // link control 2
	errors16 := func(off int, bits uint16) { order.PutUint16(s.clear[off:], bits) }
	errors32 := func(off int, bits uint32) { order.PutUint32(s.clear[off:], bits) }
	errors16(regStatus, statusErrors)
	errors16(capExpress+0x0A, 0x000F)       // device status
	put32(capErrors, 1|2<<16, 0)            // version 2, the last one
	errors32(capErrors+0x04, uncorrectable) // status
	put32(capErrors+0x08, uncorrectableMask, uncorrectable)
	put32(capErrors+0x0C, uncorrectableFatal, uncorrectable)
	errors32(capErrors+0x10, correctable) // status
	put32(capErrors+0x14, correctableMask, correctable)
	put32(capErrors+0x18, errorsChecksums, errorsChecksumsOn)
	put32(timerControl, 0, ^uint32(0))
	put32(timerTarget, 0, ^uint32(0))
	s.now = s.start
	return s
}

func (s *space) read(off int, p []byte) {
	s.mu.Lock()
	copy(p, s.now[off:])
	s.mu.Unlock()
}

// write reports a request to reset the chip.
func (s *space) write(off int, p []byte) (reset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, v := range p {
		m := s.mask[off+i]
		s.now[off+i] = (s.now[off+i]&^m | v&m) &^ (v & s.clear[off+i])
	}
	return off <= timerControl && off+len(p) > timerControl && s.now[timerControl]&timerPending != 0
}

func (s *space) reset() {
	s.mu.Lock()
	s.now = s.start
	s.mu.Unlock()
}

func (s *space) word(off int) uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return order.Uint16(s.now[off:])
}

// Regions of a PCI device (linux/vfio.h, VFIO_PCI_BAR0_REGION_INDEX and on).
const (
	regionConfig = 7
	regionCount  = 9 // with the ROM, 6, and VGA, 8, which the cards don't have

	regionRead  = 1 << 0
	regionWrite = 1 << 1
)

func (s *space) regionSize(index uint32) uint64 {
	switch {
	case index < uint32(len(s.barSize)):
		return s.barSize[index]
	case index == regionConfig:
		return spaceSize
	}
	return 0
}

func isBulk(bar uint32) bool { return bar == 0 || bar == 4 }

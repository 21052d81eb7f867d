package driver

import (
	"slices"
	"syscall"

	"github.com/reprise-tt/reprise/chip"
)

// iatuRegion is an outbound region: offsets base to limit of the aperture that the NoC reaches lead to bus addresses
// from target on.
type iatuRegion struct {
	free                bool
	base, limit, target uint64
}

// Registers of an outbound region (tt-kmd wormhole.c, blackhole.c; tt-isa-documentation
// WormholeB0/PCIExpressTile/README.md).
const (
	iatuControl1   = 0x00
	iatuControl2   = 0x04
	iatuBaseLow    = 0x08
	iatuBaseHigh   = 0x0C
	iatuLimitLow   = 0x10
	iatuTargetLow  = 0x14
	iatuTargetHigh = 0x18
	iatuControl3   = 0x1C // Blackhole
	iatuLimitHigh  = 0x20 // Blackhole

	iatuEnable          = 1 << 31 // control 2
	iatuDMABypass       = 1 << 27
	iatuTLPBypass       = 1 << 21
	iatuFuncBypass      = 1 << 19
	iatuIncreaseSize    = 1 << 13 // control 1: the limit has more than 32 bits
	iatuBlackholeRegion = 1 << 40 // largest region in bytes
)

const noRegion = -1

// mapOutboundLocked takes a range of the aperture, first fit from the bottom or from the top, and an outbound region that
// leads it to a bus address (tt-kmd memory.c, setup_noc_dma).
func (d *device) mapOutboundLocked(topDown bool, size, target uint64) (region int, noc uint64, err error) {
	base, ok := d.findAperture(topDown, size)
	if !ok {
		return noRegion, 0, syscall.ENOMEM
	}
	region = slices.IndexFunc(d.iatu[:], func(r iatuRegion) bool { return r.free })
	if region < 0 {
		return noRegion, 0, syscall.ENOSPC
	}
	r := iatuRegion{base: base, limit: base + size - 1, target: target}
	if d.arch.regionTB && size > iatuBlackholeRegion {
		return noRegion, 0, syscall.EINVAL
	}
	d.iatu[region] = r
	d.programRegion(region, r)
	return region, d.arch.params.PCI.NOCBase + base, nil
}

// findAperture finds a gap of size bytes between the live regions.
func (d *device) findAperture(topDown bool, size uint64) (base uint64, ok bool) {
	limit := d.arch.nocLimit
	if size == 0 || size-1 > limit {
		return 0, false
	}
	var used []iatuRegion
	for _, r := range d.iatu {
		if !r.free {
			used = append(used, r)
		}
	}
	slices.SortFunc(used, func(a, b iatuRegion) int {
		if a.base < b.base {
			return -1
		}
		return 1
	})
	if !topDown {
		at := uint64(0)
		for _, r := range used {
			if r.base-at >= size {
				return at, true
			}
			at = r.limit + 1
		}
		return at, at <= limit && limit-at >= size-1
	}
	end := limit + 1
	for _, r := range slices.Backward(used) {
		if end-(r.limit+1) >= size {
			return end - size, true
		}
		end = r.base
	}
	return end - size, end >= size
}

// unmapOutboundLocked disables a region in hardware and releases it.
func (d *device) unmapOutboundLocked(region *int) {
	if *region == noRegion {
		return
	}
	if !d.detached && d.fn != nil {
		d.programRegion(*region, iatuRegion{})
	}
	d.dropRegion(region)
}

// dropRegion gives a region back without touching hardware.
func (d *device) dropRegion(region *int) {
	if *region != noRegion {
		d.iatu[*region] = iatuRegion{free: true}
		*region = noRegion
	}
}

// programRegion writes a region's registers in the driver's order. A limit of zero disables it.
func (d *device) programRegion(i int, r iatuRegion) {
	p := d.arch.params
	at := uint64(p.PCI.IATUBase) + uint64(i)*uint64(p.PCI.IATUStride)
	write := func(reg uint64, v uint64) { d.fn.BARStore(2, at+reg, 4, v&0xFFFFFFFF) }
	write(iatuBaseLow, r.base)
	write(iatuBaseHigh, r.base>>32)
	write(iatuTargetLow, r.target)
	write(iatuTargetHigh, r.target>>32)
	write(iatuLimitLow, r.limit)
	if p.Arch == chip.Wormhole {
		write(iatuControl1, 0)
		if r.limit == 0 {
			write(iatuControl2, 0)
		} else {
			write(iatuControl2, iatuEnable|iatuDMABypass|iatuTLPBypass|iatuFuncBypass)
		}
		return
	}
	write(iatuLimitHigh, r.limit>>32)
	write(iatuControl1, iatuIncreaseSize)
	if r.limit == 0 {
		write(iatuControl2, 0)
	} else {
		write(iatuControl2, iatuEnable)
	}
	write(iatuControl3, 0)
}

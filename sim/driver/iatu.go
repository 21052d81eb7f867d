package driver

import (
	"cmp"
	"slices"
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

// iatu is a card's outbound regions, from the NoC's PCIe aperture to bus addresses. A nil function
// leaves hardware alone.
type iatu struct {
	arch    *arch
	regions [kabi.MaxIATURegions]iatuRegion
}

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

// mapOutbound takes a range of the aperture, first fit from either end, for target (tt-kmd
// memory.c, setup_noc_dma).
func (t *iatu) mapOutbound(fn Function, topDown bool, size, target uint64) (region int, noc uint64, err error) {
	base, ok := t.findAperture(topDown, size)
	if !ok {
		return noRegion, 0, syscall.ENOMEM
	}
	region = slices.IndexFunc(t.regions[:], func(r iatuRegion) bool { return r.free })
	if region < 0 {
		return noRegion, 0, syscall.ENOSPC
	}
	r := iatuRegion{base: base, limit: base + size - 1, target: target}
	if t.arch.regionTB && size > iatuBlackholeRegion {
		return noRegion, 0, syscall.EINVAL
	}
	t.regions[region] = r
	t.program(fn, region, r)
	return region, t.arch.params.PCI.NOCBase + base, nil
}

func (t *iatu) findAperture(topDown bool, size uint64) (base uint64, ok bool) {
	limit := t.arch.nocLimit
	if size == 0 || size-1 > limit {
		return 0, false
	}
	var used []iatuRegion
	for _, r := range t.regions {
		if !r.free {
			used = append(used, r)
		}
	}
	slices.SortFunc(used, func(a, b iatuRegion) int { return cmp.Compare(a.base, b.base) })
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

func (t *iatu) unmapOutbound(fn Function, region *int) {
	if *region == noRegion {
		return
	}
	if fn != nil {
		t.program(fn, *region, iatuRegion{})
	}
	t.regions[*region] = iatuRegion{free: true}
	*region = noRegion
}

// program writes in the driver's order; a limit of zero disables the region.
func (t *iatu) program(fn Function, i int, r iatuRegion) {
	p := t.arch.params
	at := uint64(p.PCI.IATUBase) + uint64(i)*uint64(p.PCI.IATUStride)
	write := func(reg uint64, v uint64) { fn.BARStore(2, at+reg, 4, v&0xFFFFFFFF) }
	write(iatuBaseLow, r.base)
	write(iatuBaseHigh, r.base>>32)
	write(iatuTargetLow, r.target)
	write(iatuTargetHigh, r.target>>32)
	write(iatuLimitLow, r.limit)
	wormhole, enable := p.Arch == chip.Wormhole, uint64(iatuEnable)
	if wormhole {
		enable |= iatuDMABypass | iatuTLPBypass | iatuFuncBypass
	}
	if r.limit == 0 {
		enable = 0
	}
	if wormhole {
		write(iatuControl1, 0)
		write(iatuControl2, enable)
		return
	}
	write(iatuLimitHigh, r.limit>>32)
	write(iatuControl1, iatuIncreaseSize)
	write(iatuControl2, enable)
	write(iatuControl3, 0)
}

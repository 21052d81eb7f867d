package driver

import (
	"math/bits"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

// Mmap offsets (tt-kmd memory.c). Clients take them from the ioctls.
const (
	offsetStep  = 1 << 36 // BARs 0, 2, 4, each uncached and write-combined, in the order of kabi's mapping ids
	offsetTLBUC = 6 * offsetStep
	offsetTLBWC = 7 * offsetStep
	bufferStep  = 1 << 32
)

// bufferBase is DMA buffer 0's offset: 2^32 pages less 256 buffers.
func bufferBase() uint64 { return (pageSize() - kabi.MaxDMABufs) << 32 }

type arch struct {
	params   *chip.Params
	counts   []int  // usable windows by class
	dmaLimit uint64 // highest bus address of a mapping
	nocLimit uint64 // highest offset in the aperture that the NoC reaches
	regionTB bool   // an outbound region is at most 1 TiB
}

func archOf(p *chip.Params) *arch {
	a := &arch{params: p, nocLimit: p.PCI.NOCSize - 1, dmaLimit: 1<<32 - 1}
	for _, w := range p.Windows {
		n := w.Count
		if w.BAR == 4 {
			n = min(n, int(p.PCI.BARSize[4]/w.Size)) // tt-kmd blackhole.c, blackhole_init
		}
		a.counts = append(a.counts, n)
	}
	if p.Arch == chip.Blackhole {
		a.dmaLimit, a.regionTB = 1<<58-1, true
	}
	return a
}

// BAR 0 windows are at their BAR offset, BAR 4's after BAR 0's size.
func (a *arch) windowByOffset(off uint64) (id uint32, class chip.WindowClass, bar int, start uint64, ok bool) {
	if bar0 := a.params.PCI.BARSize[0]; off >= bar0 {
		bar, off = 4, off-bar0
	}
	for i, w := range a.params.Windows {
		if w.BAR != bar || off < w.Offset || (off-w.Offset)%w.Size != 0 {
			continue
		}
		if n := (off - w.Offset) / w.Size; n < uint64(a.counts[i]) {
			return uint32(w.First) + uint32(n), w, bar, off, true
		}
	}
	return 0, chip.WindowClass{}, 0, 0, false
}

// packWindow truncates as the driver does, and Wormhole has no static virtual channel (tt-kmd
// wormhole.c construct_tlb_config, blackhole.c blackhole_configure_tlb_2M and _4G).
func packWindow(a chip.Arch, size uint64, c *kabi.NOCTLBConfig) (lo, hi uint64) {
	at := uint(0)
	put := func(width uint, v uint64) { // the next bits
		v &= 1<<width - 1
		lo |= v << at
		if at < 64 {
			hi |= v >> (64 - at)
		} else {
			hi |= v << (at - 64)
		}
		at += width
	}
	shift := uint(bits.TrailingZeros64(size))
	n, nocBits, virtual := 36-shift, uint(1), uint(0)
	if a == chip.Blackhole {
		n, nocBits, virtual = 64-shift, 2, 1
	}
	put(n, c.Addr>>shift)
	for _, v := range [...]uint16{c.XEnd, c.YEnd, c.XStart, c.YStart} {
		put(6, uint64(v))
	}
	put(nocBits, uint64(c.NOC))
	put(1, uint64(c.Mcast))
	put(2, uint64(c.Ordering))
	put(1, uint64(c.Linked))
	put(virtual, uint64(c.StaticVC))
	return lo, hi
}

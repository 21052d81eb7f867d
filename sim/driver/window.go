package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

// arch holds the driver's constants for an architecture next to the chip's.
type arch struct {
	params   *chip.Params
	counts   []int  // usable windows by class
	dmaLimit uint64 // highest bus address of a mapping
	nocLimit uint64 // highest offset in the aperture that the NoC reaches
	regionTB bool   // an outbound region is at most 1 TiB
}

func archOf(p *chip.Params) *arch {
	a := &arch{params: p}
	for _, w := range p.Windows {
		n := w.Count
		if w.BAR == 4 {
			n = min(n, int(p.PCI.BARSize[4]/w.Size)) // tt-kmd blackhole.c, blackhole_init
		}
		a.counts = append(a.counts, n)
	}
	switch p.Arch {
	case chip.Wormhole:
		a.dmaLimit = 1<<32 - 1
		a.nocLimit = p.PCI.NOCSize - 1
	case chip.Blackhole:
		a.dmaLimit = 1<<58 - 1
		a.nocLimit = p.PCI.NOCSize - 1
		a.regionTB = true
	}
	return a
}

// windowByOffset finds the window that starts at an mmap offset inside the TLB range: BAR 0 windows at their BAR
// offset, BAR 4 windows after the size of BAR 0.
func (a *arch) windowByOffset(off uint64) (id uint32, class chip.WindowClass, bar int, start uint64, ok bool) {
	bar0 := a.params.PCI.BARSize[0]
	bar = 0
	if off >= bar0 {
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

// packWindow lays a configuration out as the driver does: values are cut to the register's fields, nothing is refused
// for what it means, and Wormhole's layout has no static virtual channel
// (tt-kmd wormhole.c construct_tlb_config, blackhole.c blackhole_configure_tlb_2M and _4G).
func packWindow(a chip.Arch, size uint64, c *kabi.NOCTLBConfig) (lo, hi uint64) {
	put := func(first uint, width uint, v uint64) {
		v &= 1<<width - 1
		if first < 64 {
			lo |= v << first
		}
		if first+width > 64 {
			if first < 64 {
				hi |= v >> (64 - first)
			} else {
				hi |= v << (first - 64)
			}
		}
	}
	shift := uint(0)
	for 1<<shift != size {
		shift++
	}
	n, nocBits := 36-shift, uint(1)
	if a == chip.Blackhole {
		n, nocBits = 64-shift, 2
	}
	put(0, n, c.Addr>>shift)
	put(n, 6, uint64(c.XEnd))
	put(n+6, 6, uint64(c.YEnd))
	put(n+12, 6, uint64(c.XStart))
	put(n+18, 6, uint64(c.YStart))
	n += 24
	put(n, nocBits, uint64(c.NOC))
	n += nocBits
	put(n, 1, uint64(c.Mcast))
	put(n+1, 2, uint64(c.Ordering))
	put(n+3, 1, uint64(c.Linked))
	if a == chip.Blackhole {
		put(n+4, 1, uint64(c.StaticVC))
	}
	return lo, hi
}

// configureWindow programs the registers of a window: one 8-byte store on Wormhole, three 4-byte stores on Blackhole,
// whose registers are only 4-byte aligned.
func (d *device) configureWindow(id uint32, size uint64, c *kabi.NOCTLBConfig) error {
	p := d.arch.params
	if c.Addr&(size-1) != 0 || p.Arch == chip.Wormhole && c.Addr >= 1<<36 {
		return syscall.EINVAL
	}
	lo, hi := packWindow(p.Arch, size, c)
	reg := p.WindowRegister(int(id))
	if p.Arch == chip.Wormhole {
		d.fn.BARStore(0, reg, 8, lo)
		return nil
	}
	d.fn.BARStore(0, reg, 4, lo&0xFFFFFFFF)
	d.fn.BARStore(0, reg+4, 4, lo>>32)
	d.fn.BARStore(0, reg+8, 4, hi)
	if id < uint32(p.BAR.StridedCount) {
		if bit := uint32(1) << id; d.strided.Load()&bit != 0 {
			d.strided.And(^bit)
			d.fn.BARStore(0, uint64(p.BAR.StridedRegs)+4*uint64(id), 4, 0)
		}
	}
	return nil
}

// noteStore watches stores through mappings of BAR 0 for those that set a strided multicast register.
func (d *device) noteStore(off uint64, n uint64) {
	p := d.arch.params
	if p.BAR.StridedCount == 0 {
		return
	}
	base := uint64(p.BAR.StridedRegs)
	for i := range uint64(p.BAR.StridedCount) {
		if r := base + 4*i; off < r+4 && off+n > r {
			d.strided.Or(1 << i)
		}
	}
}

func (f *file) allocateTLB(arg []byte) error {
	var in kabi.AllocateTLBIn
	rest, ok := take(arg, &in)
	if !ok || len(rest) < kabi.Size[kabi.AllocateTLBOut]() {
		return syscall.EFAULT
	}
	d := f.dev
	p := d.arch.params
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults.windowsTakenLocked(d, in.Size) {
		return syscall.ENOMEM
	}
	n := 0
	for i, w := range p.Windows {
		if w.Size == in.Size || !d.cfg.Version.atLeast(2, 2) && n == 0 && w.Size >= in.Size {
			n = d.arch.counts[i]
			for id := w.First; id < w.First+n; id++ {
				if !d.tlbs[id] && !d.exportedLocked(uint32(id)) {
					d.tlbs[id] = true
					f.tlbs[uint32(id)] = 0
					off := w.Offset + uint64(id-w.First)*w.Size
					if w.BAR == 4 {
						off += p.PCI.BARSize[0]
					}
					out := kabi.AllocateTLBOut{ID: uint32(id), MmapOffsetUC: offsetTLBUC + off, MmapOffsetWC: offsetTLBWC + off}
					put(rest, &out)
					return nil
				}
			}
			break
		}
	}
	if n == 0 {
		return syscall.EINVAL
	}
	return syscall.ENOMEM
}

func (f *file) freeTLB(arg []byte) error {
	var in kabi.FreeTLBIn
	if _, ok := take(arg, &in); !ok {
		return syscall.EFAULT
	}
	if in.ID >= kabi.MaxInboundTLBs {
		return syscall.EINVAL
	}
	d := f.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	maps, owned := f.tlbs[in.ID]
	switch {
	case !owned:
		return syscall.EPERM
	case maps > 0:
		return syscall.EBUSY
	}
	delete(f.tlbs, in.ID)
	d.tlbs[in.ID] = false
	return nil
}

func (f *file) configureTLB(arg []byte) error {
	var in kabi.ConfigureTLBIn
	if _, ok := take(arg, &in); !ok {
		return syscall.EFAULT
	}
	if in.ID >= kabi.MaxInboundTLBs {
		return syscall.EINVAL
	}
	d := f.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, owned := f.tlbs[in.ID]; !owned {
		return syscall.EPERM
	}
	class, _ := d.arch.params.WindowClassOf(int(in.ID))
	return d.configureWindow(in.ID, class.Size, &in.Config)
}

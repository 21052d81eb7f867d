package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

func (f *file) allocateTLB(in kabi.AllocateTLBIn, rest []byte) error {
	if len(rest) < kabi.Size[kabi.AllocateTLBOut]() {
		return syscall.EFAULT
	}
	d := f.dev
	p := d.arch.params
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for i, w := range p.Windows {
		if w.Size == in.Size || !d.cfg.Version.atLeast(2) && n == 0 && w.Size >= in.Size {
			n = d.arch.counts[i]
			for id := w.First; id < w.First+n; id++ {
				if !d.faults.busyWindows && !d.tlbs[id] && !d.exports.has(uint32(id)) {
					d.tlbs[id] = true
					f.tlbs[uint32(id)] = 0
					off := w.Offset + uint64(id-w.First)*w.Size
					if w.BAR == 4 {
						off += p.PCI.BARSize[0]
					}
					out := kabi.AllocateTLBOut{ID: uint32(id), MmapOffsetUC: offsetTLBUC + off, MmapOffsetWC: offsetTLBWC + off}
					kabi.Put(rest, &out)
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

func (f *file) freeTLB(in kabi.FreeTLBIn, _ []byte) error {
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

func (f *file) configureTLB(in kabi.ConfigureTLBIn, _ []byte) error {
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

// exportTLB exports a window as a dma-buf (tt-kmd memory.c, ioctl_export_tlb_dmabuf).
func (f *file) exportTLB(in kabi.ExportTLBDMABuf) (kabi.ExportTLBDMABuf, error) {
	d := f.dev
	page := pageSize()
	if in.Argsz != uint32(kabi.Size[kabi.ExportTLBDMABuf]()) || in.Flags != 0 || in.TLBID >= kabi.MaxInboundTLBs ||
		in.Offset%page != 0 || in.Size%page != 0 {
		return in, syscall.EINVAL
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, owned := f.tlbs[in.TLBID]; !owned {
		return in, syscall.EPERM
	}
	class, _ := d.arch.params.WindowClassOf(int(in.TLBID))
	bar, start, _ := d.arch.params.WindowOffset(int(in.TLBID))
	if in.Offset >= class.Size || in.Size > class.Size-in.Offset {
		return in, syscall.EINVAL
	}
	size := in.Size
	if size == 0 {
		size = class.Size - in.Offset
	}
	if start+in.Offset+size > d.barSize[bar] {
		return in, syscall.EINVAL
	}
	give, keep, err := newWatched()
	if err != nil {
		return in, errno(err)
	}
	d.exports = append(d.exports, export{in.TLBID, keep})
	in.FD = int32(give)
	return in, nil
}

// The registers are only 4-byte aligned on Blackhole.
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

func (d *device) noteStore(off uint64, n uint64) {
	p := d.arch.params
	base := uint64(p.BAR.StridedRegs)
	for i := range uint64(p.BAR.StridedCount) {
		if r := base + 4*i; off < r+4 && off+n > r {
			d.strided.Or(1 << i)
		}
	}
}

func (d *device) kernelAccess(x, y, noc uint8, addr uint64, width int, v uint64, store bool) (uint64, error) {
	d.kernelWindow.Lock()
	defer d.kernelWindow.Unlock()
	p := d.arch.params
	class, _ := p.WindowClassOf(p.BAR.KernelWindow)
	bar, off, _ := p.WindowOffset(p.BAR.KernelWindow)
	in := addr & (class.Size - 1)
	cfg := kabi.NOCTLBConfig{Addr: addr - in, XEnd: uint16(x), YEnd: uint16(y), NOC: noc, Ordering: uint8(chip.Strict)}
	if err := d.configureWindow(uint32(p.BAR.KernelWindow), class.Size, &cfg); err != nil {
		return 0, err
	}
	if d.faults.load() {
		return 1<<(8*width) - 1, nil
	}
	if store {
		d.fn.BARStore(bar, off+in, width, v)
		return 0, nil
	}
	return d.fn.BARLoad(bar, off+in, width), nil
}

// A cleanup write that hardware can't express is dropped. The driver's unpinning takes long enough
// for its arrival; here a read, which can't overtake it, waits.
func (d *device) kernelWrite32(x, y, noc uint8, addr uint64, v uint32) {
	if d.fn != nil {
		_, _ = d.kernelAccess(x, y, noc, addr, 4, uint64(v), true)
		_ = d.fn.ConfigRead(0)
	}
}

package driver

import (
	"syscall"

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

package driver

import (
	"slices"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// export is a window that is a dma-buf somewhere: a descriptor that other drivers can import. It keeps the window out
// of the pool until the last duplicate of it is closed.
type export struct {
	window uint32
	keep   int // tells when the dma-buf is closed
}

// exportTLB makes a dma-buf of a window (tt-kmd memory.c, ioctl_export_tlb_dmabuf).
func (f *file) exportTLB(arg []byte) error {
	d := f.dev
	if d.cfg.NoExport {
		return syscall.EOPNOTSUPP
	}
	var in kabi.ExportTLBDMABuf
	if _, ok := take(arg, &in); !ok {
		return syscall.EFAULT
	}
	page := pageSize()
	if in.Argsz != uint32(kabi.Size[kabi.ExportTLBDMABuf]()) || in.Flags != 0 || in.TLBID >= kabi.MaxInboundTLBs ||
		in.Offset%page != 0 || in.Size%page != 0 {
		return syscall.EINVAL
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, owned := f.tlbs[in.TLBID]; !owned {
		return syscall.EPERM
	}
	class, _ := d.arch.params.WindowClassOf(int(in.TLBID))
	bar, start, _ := d.arch.params.WindowOffset(int(in.TLBID))
	if in.Offset >= class.Size || in.Size > class.Size-in.Offset {
		return syscall.EINVAL
	}
	size := in.Size
	if size == 0 {
		size = class.Size - in.Offset
	}
	if start+in.Offset+size > d.barLen(bar) {
		return syscall.EINVAL
	}
	give, keep, err := newWatched()
	if err != nil {
		return errno(err)
	}
	d.exports = append(d.exports, &export{in.TLBID, keep})
	in.FD = int32(give)
	put(arg, &in)
	return nil
}

// sweepExportsLocked forgets dma-bufs that were closed.
func (d *device) sweepExportsLocked() {
	d.exports = slices.DeleteFunc(d.exports, func(e *export) bool {
		if !closedBy(e.keep) {
			return false
		}
		closeDescriptor(e.keep)
		return true
	})
}

// exportedLocked reports whether a window is a dma-buf somewhere.
func (d *device) exportedLocked(id uint32) bool {
	if len(d.exports) == 0 {
		return false
	}
	d.sweepExportsLocked()
	return slices.ContainsFunc(d.exports, func(e *export) bool { return e.window == id })
}

func (d *device) anyExport() bool {
	d.sweepExportsLocked()
	return len(d.exports) > 0
}

// revokeExportsLocked ends all dma-bufs of a device that goes.
func (d *device) revokeExportsLocked() {
	for _, e := range d.exports {
		closeDescriptor(e.keep)
	}
	d.exports = nil
}

package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// pin is a pinned range of the caller's memory.
type pin struct {
	va, size uint64
	bus      uint64
	region   int
	mem      hostPages
}

// dmaBuffer is memory of the driver that the device reaches.
type dmaBuffer struct {
	bus    uint64
	region int
	mem    hostPages
}

func (f *file) pinPages(arg []byte) error {
	var in kabi.PinPagesIn
	rest, ok := take(arg, &in)
	if !ok || uint64(in.OutputSizeBytes) > uint64(len(rest)) {
		return syscall.EFAULT
	}
	d := f.dev
	known := uint32(kabi.PinPagesContiguous | kabi.PinPagesNOCDMA | kabi.PinPagesNOCTopDown)
	if d.cfg.Version.atLeast(2, 9) {
		known |= kabi.PinPagesReadOnly
	}
	page := pageSize()
	if in.Flags&^known != 0 || in.Size == 0 || in.Size%page != 0 || in.VirtualAddress%page != 0 ||
		in.VirtualAddress+in.Size < in.VirtualAddress {
		return syscall.EINVAL
	}
	readOnly := in.Flags&kabi.PinPagesReadOnly != 0
	if readOnly && d.cfg.NoIOMMU {
		return syscall.EOPNOTSUPP
	}

	d.faults.pinning()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range f.pins {
		if p.va == in.VirtualAddress && p.size == in.Size {
			return syscall.EEXIST
		}
	}
	if err := checkPages(in.VirtualAddress, in.Size, !readOnly); err != nil {
		return err
	}
	if d.cfg.NoIOMMU && in.Size > page {
		big := max(d.cfg.PageSizeAt(in.VirtualAddress), page)
		if in.VirtualAddress/big != (in.VirtualAddress+in.Size-1)/big {
			return syscall.EINVAL // discontiguous
		}
	}
	p := &pin{va: in.VirtualAddress, size: in.Size, region: noRegion}
	p.mem = holdPages(in.VirtualAddress, in.Size)
	bus, ok := d.dma.add(p.mem, p.size, readOnly)
	if !ok {
		p.mem.drop()
		return syscall.ENOMEM
	}
	p.bus = bus
	out := kabi.PinPagesOutExtended{PhysicalAddress: bus}
	if in.Flags&(kabi.PinPagesNOCDMA|kabi.PinPagesNOCTopDown) != 0 {
		region, noc, err := d.mapOutboundLocked(in.Flags&kabi.PinPagesNOCTopDown != 0, in.Size, bus)
		if err != nil {
			d.dma.remove(bus)
			p.mem.drop()
			return err
		}
		p.region, out.NOCAddress = region, noc
	}
	f.pins = append(f.pins, p)
	return answer(rest, in.OutputSizeBytes, &out)
}

func (f *file) unpinPages(arg []byte) error {
	var in kabi.UnpinPagesIn
	if _, ok := take(arg, &in); !ok {
		return syscall.EFAULT
	}
	page := pageSize()
	if in.Reserved != 0 || in.Size/page == 0 {
		return syscall.EINVAL
	}
	d := f.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	// Of several pins that start at an address the driver considers the newest only.
	for i := len(f.pins) - 1; i >= 0; i-- {
		p := f.pins[i]
		if p.va != in.VirtualAddress {
			continue
		}
		if p.size/page != in.Size/page {
			return syscall.EINVAL
		}
		f.pins = append(f.pins[:i], f.pins[i+1:]...)
		d.unpinLocked(p)
		return nil
	}
	return syscall.EINVAL
}

// unpinLocked ends a pin: the outbound region first, then the bus address, then the pages.
func (d *device) unpinLocked(p *pin) {
	d.unmapOutboundLocked(&p.region)
	d.dma.remove(p.bus)
	p.mem.drop()
}

func (f *file) allocateDMABuf(arg []byte) error {
	var in kabi.AllocateDMABufIn
	rest, ok := take(arg, &in)
	if !ok || len(rest) < kabi.Size[kabi.AllocateDMABufOut]() {
		return syscall.EFAULT
	}
	if size := uint64(in.RequestedSize); size == 0 || size%pageSize() != 0 || size > 1<<kabi.MaxDMABufLog2 {
		return syscall.EINVAL
	}
	d := f.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, used := f.bufs[in.BufIndex]; used {
		return syscall.EINVAL
	}
	mem, err := newPages(uint64(in.RequestedSize))
	if err != nil {
		return errno(err)
	}
	b := &dmaBuffer{region: noRegion, mem: mem}
	if b.bus, ok = d.dma.add(mem, mem.size, false); !ok {
		mem.drop()
		return syscall.ENOMEM
	}
	out := kabi.AllocateDMABufOut{
		PhysicalAddress: b.bus,
		MappingOffset:   bufferBase() + uint64(in.BufIndex)*bufferStep,
		Size:            in.RequestedSize,
	}
	if in.Flags&kabi.AllocateDMABufNOCDMA != 0 {
		if b.region, out.NOCAddress, err = d.mapOutboundLocked(true, mem.size, b.bus); err != nil {
			d.dma.remove(b.bus)
			mem.drop()
			return err
		}
	}
	f.bufs[in.BufIndex] = b
	put(rest, &out)
	return nil
}

// releasePagesLocked ends what a file pinned and allocated.
func (f *file) releasePagesLocked() {
	d := f.dev
	for _, b := range f.bufs {
		d.dma.remove(b.bus)
		d.unmapOutboundLocked(&b.region)
		b.mem.drop()
	}
	clear(f.bufs)
	for _, p := range f.pins {
		d.unpinLocked(p)
	}
	f.pins = nil
	for _, bus := range f.peers {
		d.dma.remove(bus)
	}
	f.peers = nil
}

// drop gives up the pages.
func (h *hostPages) drop() {
	if h.unmap != nil {
		h.unmap()
		h.unmap = nil
	}
}

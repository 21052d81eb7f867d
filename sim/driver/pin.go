package driver

import (
	"slices"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

func (f *file) pinPages(in kabi.PinPagesIn, rest []byte) error {
	if uint64(in.OutputSizeBytes) > uint64(len(rest)) {
		return syscall.EFAULT
	}
	d := f.dev
	known := uint32(kabi.PinPagesContiguous | kabi.PinPagesNOCDMA | kabi.PinPagesNOCTopDown)
	if d.cfg.Version.atLeast(9) {
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
	topDown := in.Flags&kabi.PinPagesNOCTopDown != 0
	r, noc, err := d.reachLocked(holdPages(in.VirtualAddress, in.Size), readOnly,
		topDown || in.Flags&kabi.PinPagesNOCDMA != 0, topDown)
	if err != nil {
		return err
	}
	f.pins = append(f.pins, &pin{r, in.VirtualAddress, in.Size})
	return answer(rest, in.OutputSizeBytes, &kabi.PinPagesOutExtended{PhysicalAddress: r.bus, NOCAddress: noc})
}

func (f *file) unpinPages(in kabi.UnpinPagesIn, _ []byte) error {
	page := pageSize()
	if in.Reserved != 0 || in.Size/page == 0 {
		return syscall.EINVAL
	}
	d := f.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	// The driver considers only the newest of several pins at an address.
	for i, p := range slices.Backward(f.pins) {
		if p.va != in.VirtualAddress {
			continue
		}
		if p.size/page != in.Size/page {
			return syscall.EINVAL
		}
		f.pins = slices.Delete(f.pins, i, i+1)
		d.dropLocked(&p.reach)
		return nil
	}
	return syscall.EINVAL
}

func (f *file) allocateDMABuf(in kabi.AllocateDMABufIn, rest []byte) error {
	if len(rest) < kabi.Size[kabi.AllocateDMABufOut]() {
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
	b, noc, err := d.reachLocked(mem, false, in.Flags&kabi.AllocateDMABufNOCDMA != 0, true)
	if err != nil {
		return err
	}
	f.bufs[in.BufIndex] = &b
	kabi.Put(rest, &kabi.AllocateDMABufOut{
		PhysicalAddress: b.bus,
		MappingOffset:   bufferBase() + uint64(in.BufIndex)*bufferStep,
		Size:            in.RequestedSize,
		NOCAddress:      noc,
	})
	return nil
}

// mapPeerBar maps a range of another card's BAR at a bus address (tt-kmd memory.c,
// ioctl_map_peer_bar).
func (f *file) mapPeerBar(in kabi.MapPeerBarIn, rest []byte) error {
	const resources = 17 // PCI_NUM_RESOURCES of a kernel with SR-IOV
	if in.Flags != 0 || in.PeerBarIndex >= resources || in.PeerBarLength == 0 {
		return syscall.EINVAL
	}
	if !isDescriptor(int(int32(in.PeerFD))) {
		return syscall.EBADF
	}
	d := f.dev
	d.drv.filesMu.Lock()
	peer := d.drv.files[int(in.PeerFD)]
	d.drv.filesMu.Unlock()
	if peer == nil || peer.dev == d || peer.dev.arch.params.Arch != d.arch.params.Arch {
		return syscall.EINVAL
	}
	size := uint64(0)
	if in.PeerBarIndex < uint32(len(peer.dev.barSize)) {
		peer.dev.mu.Lock()
		size = peer.dev.barSize[int(in.PeerBarIndex)]
		peer.dev.mu.Unlock()
	}
	if uint64(in.PeerBarOffset) >= size || uint64(in.PeerBarLength) > size-uint64(in.PeerBarOffset) {
		return syscall.EINVAL
	}
	if len(rest) < kabi.Size[kabi.MapPeerBarOut]() {
		return syscall.EFAULT
	}
	bus, ok := d.dma.insert(busRange{size: uint64(in.PeerBarLength),
		peer: &peerBAR{peer.dev.name, &peer.dev.forPeers, int(in.PeerBarIndex), uint64(in.PeerBarOffset)}})
	if !ok {
		return syscall.ENOMEM
	}
	d.mu.Lock()
	f.peers = append(f.peers, bus)
	d.mu.Unlock()
	kabi.Put(rest, &kabi.MapPeerBarOut{DMAAddress: bus})
	return nil
}

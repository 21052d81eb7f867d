package driver

import (
	"fmt"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// Descriptor returns a descriptor of this process by which an ioctl of another file can name this one. It is the
// file's and is closed with it.
func (f *file) Descriptor() (int, error) {
	d := f.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.closed() {
		return -1, syscall.EBADF
	}
	if f.desc == 0 {
		fd, err := newDescriptor()
		if err != nil {
			return -1, err
		}
		f.desc = fd
		d.drv.filesMu.Lock()
		d.drv.files[fd] = f
		d.drv.filesMu.Unlock()
	}
	return f.desc, nil
}

// dropDescriptor closes the descriptor. d.mu is held.
func (f *file) dropDescriptor() {
	if f.desc == 0 {
		return
	}
	drv := f.dev.drv
	drv.filesMu.Lock()
	delete(drv.files, f.desc)
	drv.filesMu.Unlock()
	closeDescriptor(f.desc)
	f.desc = 0
}

// mapPeerBar gives a range of another card's BAR a bus address of this card's (tt-kmd memory.c, ioctl_map_peer_bar).
func (f *file) mapPeerBar(arg []byte) error {
	var in kabi.MapPeerBarIn
	rest, ok := take(arg, &in)
	if !ok {
		return syscall.EFAULT
	}
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
		size = peer.dev.barLen(int(in.PeerBarIndex))
		peer.dev.mu.Unlock()
	}
	if uint64(in.PeerBarOffset) >= size || uint64(in.PeerBarLength) > size-uint64(in.PeerBarOffset) {
		return syscall.EINVAL
	}
	if len(rest) < kabi.Size[kabi.MapPeerBarOut]() {
		return syscall.EFAULT
	}
	bus, ok := d.dma.insert(busRange{size: uint64(in.PeerBarLength),
		peer: &peerBAR{peer.dev, int(in.PeerBarIndex), uint64(in.PeerBarOffset)}})
	if !ok {
		return syscall.ENOMEM
	}
	d.mu.Lock()
	f.peers = append(f.peers, bus)
	d.mu.Unlock()
	put(rest, &kabi.MapPeerBarOut{DMAAddress: bus})
	return nil
}

// access is an access of a card to its peer's BAR.
func (b *peerBAR) access(off uint64, p []byte, store bool) error {
	b.dev.mu.Lock()
	fn := b.dev.fn
	b.dev.mu.Unlock()
	switch {
	case fn == nil:
		return &DMAError{Bus: off, Size: len(p), Write: store, Why: fmt.Sprintf("the peer %s is gone", b.dev.name)}
	case store:
		fn.BARWrite(b.bar, b.off+off, p)
	default:
		fn.BARRead(b.bar, b.off+off, p)
	}
	return nil
}

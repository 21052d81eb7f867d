package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

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
	put(rest, &kabi.MapPeerBarOut{DMAAddress: bus})
	return nil
}

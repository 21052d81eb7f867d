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
	if f.closedLocked() {
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

// dropDescriptorLocked closes the descriptor.
func (f *file) dropDescriptorLocked() {
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

// function returns the peer's function, or nil and the error of an access to a peer that is gone.
func (b *peerBAR) function(bus uint64, n int, write bool) (Function, error) {
	if fn := b.dev.forPeers.Load(); fn != nil {
		return *fn, nil
	}
	return nil, &DMAError{Bus: bus, Size: n, Write: write, Why: fmt.Sprintf("the peer %s is gone", b.dev.name)}
}

// write is a write of a card to its peer's BAR, which is posted.
func (b *peerBAR) write(from *iommu, bus, off uint64, p []byte) error {
	fn, err := b.function(bus, len(p), true)
	if err != nil {
		return err
	}
	if to, ok := fn.(Peer); ok {
		n := int64(len(p))
		from.posted.Add(n)
		to.PeerWrite(b.bar, off, p, func() { from.posted.Add(-n) })
	} else {
		fn.BARWrite(b.bar, off, p)
	}
	return nil
}

// read is a read by a card that waits for the answer. That of a Peer may take until the card is done with what it is doing.
func (b *peerBAR) read(bus, off uint64, p []byte) error {
	fn, err := b.function(bus, len(p), false)
	if err != nil {
		return err
	}
	if _, ok := fn.(Peer); ok {
		return &DMAError{Bus: bus, Size: len(p), Why: fmt.Sprintf("it leads to BAR %d of %s, whose answer the device "+
			"can't stand still for, since the peer may be waiting for it: let the peer write instead", b.bar, b.dev.name)}
	}
	fn.BARRead(b.bar, off, p)
	return nil
}

// ReadPeer implements PeerDMA.
func (m *iommu) ReadPeer(bus uint64, n int, done func(p []byte)) bool {
	m.mu.RLock()
	r := m.findLocked(bus, uint64(n))
	if r == nil || r.peer == nil {
		m.mu.RUnlock()
		return false
	}
	peer, off := r.peer, r.peer.off+bus-r.bus
	m.mu.RUnlock()
	fn, err := peer.function(bus, n, false)
	to, ok := fn.(Peer)
	if err != nil || !ok {
		return false
	}
	to.PeerRead(peer.bar, off, n, done)
	return true
}

// Posted implements PeerDMA.
func (m *iommu) Posted() int64 { return m.posted.Load() }

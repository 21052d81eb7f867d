package kmd

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// BARMapping is a PCI resource that can be mapped; Offset is in the driver's file.
type BARMapping struct {
	BAR          int
	Caching      Caching
	Offset, Size uint64
}

// Mappings lists the card's PCI resources that can be mapped.
func (d *Device) Mappings() (l []BARMapping, err error) {
	var a kabi.QueryMappings
	if err = d.usable(); err == nil {
		err = d.note(ioctl(d.file, kabi.IoctlQueryMappings, &a))
	}
	for _, m := range a.Out {
		if m.MappingID == kabi.MappingUnused || m.MappingID > kabi.MappingResource2WC {
			continue
		}
		n := int(m.MappingID - 1)
		l = append(l, BARMapping{BAR: n / 2 * 2, Caching: Caching(n & 1), Offset: m.MappingBase, Size: m.MappingSize})
	}
	return l, d.opError(err, "list mappings")
}

// MapPeerBAR returns the bus address for this card of a range of another's BAR 0, 2 or 4, until
// this Device is closed. On the vendor's simulator a read of the range stops the card. The error
// matches ErrOutOfRange for a range or pair of cards that the driver refuses.
func (d *Device) MapPeerBAR(peer *Device, bar int, offset, length uint32) (uint64, error) {
	addr, err := d.mapPeer(peer, bar, offset, length)
	return addr, d.opError(err, "map %s at %#x of BAR %d of %s", humanize.IBytes(uint64(length)), offset, bar, peer)
}

func (d *Device) mapPeer(peer *Device, bar int, offset, length uint32) (uint64, error) {
	if err := errors.Join(d.usable(), peer.usable()); err != nil {
		return 0, err
	}
	switch {
	case bar != 0 && bar != 2 && bar != 4:
		return 0, fmt.Errorf("%w: BAR %d, want 0, 2 or 4", ErrOutOfRange, bar)
	case peer.arch != d.arch:
		return 0, fmt.Errorf("%w: the peer is a %s and this card a %s: only cards of one kind reach each other",
			ErrOutOfRange, peer.arch, d.arch)
	case peer.info.BDF() == d.info.BDF():
		return 0, fmt.Errorf("%w: the peer is the card itself", ErrOutOfRange)
	}
	fd, err := peer.file.descriptor()
	if err != nil {
		return 0, fmt.Errorf("name the peer: %w", peer.note(err))
	}
	a := kabi.MapPeerBar{In: kabi.MapPeerBarIn{PeerFD: uint32(fd), PeerBarIndex: uint32(bar), PeerBarOffset: offset,
		PeerBarLength: length}}
	switch err := ioctl(d.file, kabi.IoctlMapPeerBar, &a); {
	case errors.Is(err, syscall.EINVAL):
		return 0, fmt.Errorf("%w: the driver refuses the range or the pair of cards (%w)", ErrOutOfRange, err)
	case errors.Is(err, syscall.ENOMEM):
		return 0, fmt.Errorf("%w: no bus addresses are left (%w)", ErrBusy, err)
	case err != nil:
		return 0, d.note(err)
	}
	return a.Out.DMAAddress, nil
}

// Export makes a dma-buf of a range of the window, in whole pages, for other drivers; a size of 0
// extends to the end. Until its file and duplicates are closed, the window stays out of the pool
// and the card can't be reset. The error matches ErrDriverTooOld without FeatureExport.
func (w *Window) Export(offset, size uint64) (*os.File, error) {
	f, err := w.export(offset, size)
	return f, w.dev.opError(err, "export %s", w.name)
}

func (w *Window) export(offset, size uint64) (*os.File, error) {
	if w.closed.Load() {
		return nil, ErrClosed
	}
	if err := w.dev.need(FeatureExport); err != nil {
		return nil, err
	}
	if page := hostPage(); offset&(page-1) != 0 || size&(page-1) != 0 {
		return nil, fmt.Errorf("%w: offset %#x and size %#x must be whole pages", ErrMisaligned, offset, size)
	}
	if offset >= w.size || size > w.size-offset {
		return nil, fmt.Errorf("%w: %#x bytes at %#x of %#x", ErrOutOfRange, size, offset, w.size)
	}
	a := kabi.ExportTLBDMABuf{TLBID: w.id, Offset: offset, Size: size}
	if err := ioctl(w.dev.file, kabi.IoctlExportTLBDMABuf, &a); err != nil {
		return nil, w.dev.note(err)
	}
	return os.NewFile(uintptr(a.FD), w.name+" as a dma-buf"), nil
}

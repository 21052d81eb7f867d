package topology

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
)

// remoteFile implements what a tunnel can do of the kernel driver's device node, for the remote chip. A window is an id and a target;
// each access to it is a command to the Ethernet firmware. Requests that need the chip's own PCI interface (pinning, DMA buffers,
// resets, cleanup stores, power) fail as they do on a driver that doesn't have them.
type remoteFile struct {
	t     *RemoteTarget
	local *kmd.Device
	tun   *Tunnel

	mu      sync.Mutex
	windows map[uint32]*remoteWindow
	next    uint32               // id of the last window
	locks   [kabi.LockCount]bool // held by this process, the only one that uses the remote chip
}

// Uplink returns the result of kmd.Device.Uplink.
func (f *remoteFile) Uplink() *kmd.Uplink {
	return &kmd.Uplink{Near: f.local, Link: f.t.link, Check: func() error {
		state, err := f.local.Read32(f.t.link.Near, wormholeTrained)
		if err == nil && state != wormholeIsUp {
			err = kmd.ErrLinkDown
		}
		if err != nil {
			return fmt.Errorf("link %s: %w", f.t.link.Name, err)
		}
		return nil
	}}
}

// Fault implements seam.File.
func (f *remoteFile) Fault() error {
	if err := f.local.Fault(); err != nil {
		return err
	}
	return f.local.RemoteFault(f.t.place.X, f.t.place.Y)
}

// CoreDebug returns the result of kmd.Device.CoreDebug: one simulator has both chips.
func (f *remoteFile) CoreDebug() bool { return f.local.CoreDebug() }

// Close implements seam.File.
func (f *remoteFile) Close() error { return errors.Join(f.tun.Close(), f.local.Close()) }

// remoteWindowShift is the shift from a window's id to its mmap offset, which is above all of BAR 0.
const remoteWindowShift = 36

// Mmap implements seam.File. An offset below the windows is in the registers of the PCI tile. Package kmd reads one of them, the
// NoC node id, to find out whether the chip answers; the node id of another tile serves as well.
func (f *remoteFile) Mmap(offset uint64, length int) (seam.Mapping, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.windows[uint32(offset>>remoteWindowShift)]
	if offset>>remoteWindowShift == 0 {
		w = &remoteWindow{tun: f.tun, size: uint64(length), id: true}
	}
	if w == nil || uint64(length) > w.size {
		return seam.Mapping{}, syscall.EINVAL
	}
	return seam.Mapping{IO: w, Unmap: func() error { return nil }}, nil
}

// nodeID reads the node id of a NoC interface of a tile that every Wormhole has (tt-isa-documentation
// WormholeB0/NoC/MemoryMap.md).
func (t *Tunnel) nodeID() (uint32, error) {
	return t.Load32(background(), chip.XY{X: 18, Y: 18}, niuBase+niuNodeID)
}

package topology

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
)

// farFile answers as the kernel driver would if the far chip had a device node: as much of it as can be done through a
// tunnel. Windows are a number and where they lead; each access is a command to the Ethernet firmware. Requests that need the
// chip's own PCI interface (pins, DMA buffers, resets, cleanup stores, power) are unknown to it, as to an old driver.
type farFile struct {
	t    *FarTarget
	near *kmd.Device
	tun  *Tunnel

	mu      sync.Mutex
	windows map[uint32]*farWindow
	next    uint32
	locks   [kabi.LockCount]bool // held by this file: what uses the far chip is this process
}

// Uplink is what kmd.Device.Uplink returns.
func (f *farFile) Uplink() *kmd.Uplink {
	return &kmd.Uplink{Near: f.near, Link: f.t.link, Check: func() error {
		state, err := f.near.Read32(f.t.link.Near, wormholeTrained)
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
func (f *farFile) Fault() error {
	if err := f.near.Fault(); err != nil {
		return err
	}
	return f.near.RemoteFault(f.t.place.X, f.t.place.Y)
}

// Close implements seam.File.
func (f *farFile) Close() error { return errors.Join(f.tun.Close(), f.near.Close()) }

// argument splits an ioctl's argument into its input and the rest.
func argument[T kabi.Part](arg []byte) (in T, rest []byte, err error) {
	b := kabi.PartBytes(&in)
	if len(arg) < len(b) {
		return in, nil, syscall.EFAULT
	}
	return in, arg[copy(b, arg):], nil
}

func reply[T kabi.Part](rest []byte, out T) error {
	if copy(rest, kabi.PartBytes(&out)) < kabi.Size[T]() {
		return syscall.EFAULT
	}
	return nil
}

// alive says what a driver says of a device that is gone if the near chip is, or the far one doesn't answer.
func (f *farFile) alive() error {
	if err := f.near.Alive(); errors.Is(err, kmd.ErrDeviceLost) {
		return fmt.Errorf("%w: %w", syscall.ENODEV, err)
	}
	if _, err := f.tun.nodeID(); err != nil {
		return fmt.Errorf("%w: %w", syscall.ENODEV, err)
	}
	return nil
}

// Ioctl implements seam.File.
func (f *farFile) Ioctl(req uint32, arg []byte) error {
	switch req {
	case kabi.IoctlGetDeviceInfo:
		_, rest, err := argument[kabi.GetDeviceInfoIn](arg)
		if err != nil {
			return err
		}
		i := f.near.Info()
		return reply(rest, kabi.GetDeviceInfoOut{
			OutputSizeBytes: uint32(kabi.Size[kabi.GetDeviceInfoOut]()), VendorID: i.Vendor, DeviceID: i.Device,
			SubsystemVendorID: i.SubsystemVendor, SubsystemID: i.SubsystemDevice, PCIDomain: i.Domain,
			BusDevFn: uint16(i.Bus)<<8 | uint16(i.Slot)<<3 | uint16(i.Function),
		})
	case kabi.IoctlGetDriverInfo:
		_, rest, err := argument[kabi.GetDriverInfoIn](arg)
		if err == nil {
			err = f.alive()
		}
		if err != nil {
			return err
		}
		v := f.near.Info().Driver
		return reply(rest, kabi.GetDriverInfoOut{
			OutputSizeBytes: uint32(kabi.Size[kabi.GetDriverInfoOut]()), DriverVersion: kabi.DriverAPIVersion,
			DriverVersionMajor: v.Major, DriverVersionMinor: v.Minor, DriverVersionPatch: v.Patch,
		})
	case kabi.IoctlQueryMappings: // it has no BARs
		in, rest, err := argument[kabi.QueryMappingsIn](arg)
		if err != nil {
			return err
		}
		n := uint64(in.OutputMappingCount) * uint64(kabi.Size[kabi.Mapping]())
		if n > uint64(len(rest)) {
			return syscall.EFAULT
		}
		clear(rest[:n])
		return nil
	case kabi.IoctlAllocateTLB:
		return f.allocate(arg)
	case kabi.IoctlConfigureTLB:
		in, _, err := argument[kabi.ConfigureTLBIn](arg)
		if err != nil {
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		w := f.windows[in.ID]
		if w == nil || in.Config.Addr&(w.size-1) != 0 || in.Config.NOC != 0 {
			return syscall.EINVAL
		}
		c := in.Config
		w.lead.Store(&lead{
			addr: c.Addr, to: chip.XY{X: uint8(c.XEnd), Y: uint8(c.YEnd)}, from: chip.XY{X: uint8(c.XStart), Y: uint8(c.YStart)},
			multicast: c.Mcast != 0,
		})
		return nil
	case kabi.IoctlFreeTLB:
		in, _, err := argument[kabi.FreeTLBIn](arg)
		if err != nil {
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.windows[in.ID] == nil {
			return syscall.EINVAL
		}
		delete(f.windows, in.ID)
		return nil
	case kabi.IoctlLockCtl:
		return f.lock(arg)
	}
	return syscall.EINVAL
}

func (f *farFile) allocate(arg []byte) error {
	in, rest, err := argument[kabi.AllocateTLBIn](arg)
	if err != nil {
		return err
	}
	classes := f.near.Params().Windows
	i := slices.IndexFunc(classes, func(c chip.WindowClass) bool { return c.Size == in.Size })
	if i < 0 {
		return syscall.EINVAL
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := 0
	for _, w := range f.windows {
		if w.size == in.Size {
			taken++
		}
	}
	// As many as a card has, so that who loses windows hears of it on any chip.
	if taken == classes[i].Count || f.next == 1<<20-1 {
		return syscall.ENOMEM
	}
	f.next++ // a number is used once, so a mapping can't lead into a window that came later
	f.windows[f.next] = &farWindow{tun: f.tun, size: in.Size}
	at := uint64(f.next) << farWindowShift
	return reply(rest, kabi.AllocateTLBOut{ID: f.next, MmapOffsetUC: at, MmapOffsetWC: at})
}

// farWindowShift: windows lie behind all of BAR 0, at their number times this.
const farWindowShift = 36

func (f *farFile) lock(arg []byte) error {
	in, rest, err := argument[kabi.LockCtlIn](arg)
	if err != nil {
		return err
	}
	if in.Index >= kabi.LockCount {
		return syscall.EINVAL
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.locks[in.Index]
	var out kabi.LockCtlOut
	switch in.Flags {
	case kabi.LockAcquire:
		f.locks[in.Index] = true
		out.Value = b2u(!held)
	case kabi.LockRelease:
		f.locks[in.Index] = false
		out.Value = b2u(held)
	case kabi.LockTest:
		out.Value = 3 * b2u(held)
	default:
		return syscall.EINVAL
	}
	return reply(rest, out)
}

func b2u(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// Mmap implements seam.File. What isn't a window is taken for the bridge's registers, of which a driver's user looks at one,
// which says where the bridge is and is never all ones: the same register of another tile does.
func (f *farFile) Mmap(offset uint64, length int) (seam.Mapping, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.windows[uint32(offset>>farWindowShift)]
	if offset>>farWindowShift == 0 {
		w = &farWindow{tun: f.tun, size: uint64(length), id: true}
	}
	if w == nil || uint64(length) > w.size {
		return seam.Mapping{}, syscall.EINVAL
	}
	return seam.Mapping{IO: w, Unmap: func() error { return nil }}, nil
}

// nodeID reads the number of a NoC interface of a tile that every Wormhole has (tt-isa-documentation
// WormholeB0/NoC/MemoryMap.md).
func (t *Tunnel) nodeID() (uint32, error) {
	return t.Load32(background(), chip.XY{X: 18, Y: 18}, niuBase+niuNodeID)
}

package remote

import (
	"context"
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

// file is a remote chip's device node. A window is an id and a target; each access is a command to
// the Ethernet firmware. Requests that need a PCI interface fail as on a driver without them.
type file struct {
	t     *Target
	local *kmd.Device
	tun   *Tunnel

	mu      sync.Mutex
	windows map[uint32]*window
	next    uint32               // id of the last window
	locks   [kabi.LockCount]bool // held by this process, the only one that uses the remote chip
}

func (f *file) Uplink() *kmd.Uplink {
	return &kmd.Uplink{Near: f.local, Link: f.t.Link, Check: func() error {
		state, err := f.local.Read32(f.t.Link.Near, LinkState)
		if err == nil && state != LinkUp {
			err = kmd.ErrLinkDown
		}
		if err != nil {
			return fmt.Errorf("link %s: %w", f.t.Link.Name, err)
		}
		return nil
	}}
}

func (f *file) Fault() error {
	if err := f.local.Fault(); err != nil {
		return err
	}
	return f.local.RemoteFault(f.t.Place.X, f.t.Place.Y)
}

func (f *file) CoreDebug() bool { return f.local.CoreDebug() }

func (f *file) Close() error { return errors.Join(f.tun.Close(), f.local.Close()) }

// windowShift shifts a window's id to its mmap offset, above all of BAR 0.
const windowShift = 36

// For an offset below the windows Mmap maps a register of the PCI tile: package kmd reads its NoC
// node id to check the chip, and another tile's serves as well.
func (f *file) Mmap(offset uint64, length int) (seam.Mapping, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.windows[uint32(offset>>windowShift)]
	if offset>>windowShift == 0 {
		w = &window{tun: f.tun, size: uint64(length), id: true}
	}
	if w == nil || uint64(length) > w.size {
		return seam.Mapping{}, syscall.EINVAL
	}
	return seam.Mapping{IO: w, Unmap: func() error { return nil }}, nil
}

// nodeID reads the node id of a tile that every Wormhole has (tt-isa-documentation
// WormholeB0/NoC/MemoryMap.md).
func (t *Tunnel) nodeID() (uint32, error) {
	return t.Load32(context.Background(), chip.XY{X: 18, Y: 18}, niuBase+niuNodeID)
}

// handle answers a request with the output of do.
func handle[In, Out kabi.Part](arg []byte, do func(In) (Out, error)) error {
	return kabi.Handle(func(in In, rest []byte) error {
		out, err := do(in)
		if err == nil && copy(rest, kabi.PartBytes(&out)) < kabi.Size[Out]() {
			err = syscall.EFAULT
		}
		return err
	}, arg)
}

func (f *file) Ioctl(req uint32, arg []byte) error {
	switch req {
	case kabi.IoctlGetDeviceInfo:
		return handle(arg, f.deviceInfo)
	case kabi.IoctlGetDriverInfo:
		return handle(arg, f.driverInfo)
	case kabi.IoctlQueryMappings:
		return kabi.Handle(f.mappings, arg)
	case kabi.IoctlAllocateTLB:
		return handle(arg, f.allocateWindow)
	case kabi.IoctlConfigureTLB:
		return kabi.Handle(f.configureWindow, arg)
	case kabi.IoctlFreeTLB:
		return kabi.Handle(f.freeWindow, arg)
	case kabi.IoctlLockCtl:
		return handle(arg, f.lock)
	}
	return syscall.EINVAL
}

func (f *file) deviceInfo(kabi.GetDeviceInfoIn) (kabi.GetDeviceInfoOut, error) {
	i := f.local.Info()
	return kabi.GetDeviceInfoOut{
		OutputSizeBytes: uint32(kabi.Size[kabi.GetDeviceInfoOut]()), VendorID: i.Vendor, DeviceID: i.Device,
		SubsystemVendorID: i.SubsystemVendor, SubsystemID: i.SubsystemDevice, PCIDomain: i.Domain,
		BusDevFn: uint16(i.Bus)<<8 | uint16(i.Slot)<<3 | uint16(i.Function),
	}, nil
}

func (f *file) driverInfo(kabi.GetDriverInfoIn) (kabi.GetDriverInfoOut, error) {
	v := f.local.Info().Driver
	return kabi.GetDriverInfoOut{
		OutputSizeBytes: uint32(kabi.Size[kabi.GetDriverInfoOut]()), DriverVersion: kabi.DriverAPIVersion,
		DriverVersionMajor: v.Major, DriverVersionMinor: v.Minor, DriverVersionPatch: v.Patch,
	}, f.alive()
}

func (f *file) alive() error {
	err := f.local.Alive()
	if !errors.Is(err, kmd.ErrDeviceLost) {
		_, err = f.tun.nodeID()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", syscall.ENODEV, err)
	}
	return nil
}

func (f *file) mappings(in kabi.QueryMappingsIn, rest []byte) error {
	n := uint64(in.OutputMappingCount) * uint64(kabi.Size[kabi.Mapping]())
	if n > uint64(len(rest)) {
		return syscall.EFAULT
	}
	clear(rest[:n])
	return nil
}

func (f *file) allocateWindow(in kabi.AllocateTLBIn) (out kabi.AllocateTLBOut, err error) {
	classes := f.local.Params().Windows
	i := slices.IndexFunc(classes, func(c chip.WindowClass) bool { return c.Size == in.Size })
	if i < 0 {
		return out, syscall.EINVAL
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := 0
	for _, w := range f.windows {
		if w.size == in.Size {
			taken++
		}
	}
	// As many as a card has, so leaks fail on any chip.
	if taken == classes[i].Count || f.next == 1<<20-1 {
		return out, syscall.ENOMEM
	}
	f.next++ // ids are unique, so an old mapping can't access a newer window
	f.windows[f.next] = &window{tun: f.tun, size: in.Size}
	at := uint64(f.next) << windowShift
	return kabi.AllocateTLBOut{ID: f.next, MmapOffsetUC: at, MmapOffsetWC: at}, nil
}

func (f *file) configureWindow(in kabi.ConfigureTLBIn, _ []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.windows[in.ID]
	if w == nil || in.Config.Addr&(w.size-1) != 0 || in.Config.NOC != 0 {
		return syscall.EINVAL
	}
	c := in.Config
	w.target.Store(&windowTarget{
		addr: c.Addr, to: chip.XY{X: uint8(c.XEnd), Y: uint8(c.YEnd)}, from: chip.XY{X: uint8(c.XStart), Y: uint8(c.YStart)},
		multicast: c.Mcast != 0,
	})
	return nil
}

func (f *file) freeWindow(in kabi.FreeTLBIn, _ []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.windows[in.ID] == nil {
		return syscall.EINVAL
	}
	delete(f.windows, in.ID)
	return nil
}

func (f *file) lock(in kabi.LockCtlIn) (out kabi.LockCtlOut, err error) {
	if in.Index >= kabi.LockCount {
		return out, syscall.EINVAL
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	held := &f.locks[in.Index]
	if *held {
		out.Value = 1
	}
	switch in.Flags {
	case kabi.LockAcquire:
		out.Value, *held = 1-out.Value, true
	case kabi.LockRelease:
		*held = false
	case kabi.LockTest:
		out.Value *= 3
	default:
		err = syscall.EINVAL
	}
	return out, err
}

// Target is a Wormhole without a PCI interface, for kmd.Open. The chip can't reach host memory;
// command queues use the link of kmd.Device.Uplink.
type Target struct {
	Local kmd.Target // the chip in front, with a PCI interface
	Name  string     // such as "0000:01:00.0/(1,0)"
	Place Place      // the chip's coordinate for Ethernet firmware
	Tile  chip.XY    // the Ethernet tile of the local chip whose firmware forwards accesses
	Link  kmd.Link   // for command queues
}

func (t *Target) String() string { return t.Name }

// Node implements kmd.Target.
func (t *Target) Node() seam.Node { return node{t} }

type node struct{ t *Target }

func (n node) String() string { return n.t.Name }

func (n node) Open(flags int) (seam.File, error) {
	if flags&syscall.O_EXCL != 0 {
		return nil, fmt.Errorf("%s: a chip without a PCI interface can't be opened exclusively: %w", n.t.Name, syscall.EINVAL)
	}
	local, err := kmd.Open(context.Background(), n.t.Local, kmd.WithoutWaiting())
	if err != nil {
		return nil, err
	}
	tun, err := OpenTunnel(local, n.t.Tile, n.t.Place)
	if err != nil {
		local.Close()
		return nil, err
	}
	return &file{t: n.t, local: local, tun: tun, windows: map[uint32]*window{}}, nil
}

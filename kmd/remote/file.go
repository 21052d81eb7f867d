package remote

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

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

type node struct{ *Target }

func (n node) Open(flags int) (seam.File, error) {
	if flags&syscall.O_EXCL != 0 {
		return nil, fmt.Errorf("%s: a chip without a PCI interface can't be opened exclusively: %w", n.Name, syscall.EINVAL)
	}
	local, err := kmd.Open(context.Background(), n.Local, kmd.WithoutWaiting())
	if err != nil {
		return nil, err
	}
	tun, err := OpenTunnel(local, n.Tile, n.Place)
	if err != nil {
		local.Close()
		return nil, err
	}
	return &file{t: n.Target, local: local, tun: tun, windows: map[uint32]*window{}}, nil
}

// window accesses a remote chip by words, and by blocks for bulk copies. A smaller store is a
// read-modify-write, not atomic. A failed load returns all ones, like an aborted bus access.
type window struct {
	tun    *Tunnel
	size   uint64
	target atomic.Pointer[windowTarget] // nil until configured
	id     bool                         // every word reads as the NoC interface's node id
}

type windowTarget struct {
	addr      uint64
	to, from  chip.XY
	multicast bool
}

func (w *window) word(off uint64) uint32 {
	v, err := uint32(0), ErrRange
	if l := w.target.Load(); w.id {
		v, err = w.tun.nodeID()
	} else if l != nil && !l.multicast {
		v, err = w.tun.Load32(context.Background(), l.to, l.addr+off)
	}
	if err != nil {
		return 0xFFFFFFFF
	}
	return v
}

func (w *window) Load(off uint64, width int) uint64 {
	switch width {
	case 8:
		return uint64(w.word(off)) | uint64(w.word(off+4))<<32
	case 4:
		return uint64(w.word(off))
	}
	return uint64(w.word(off&^3) >> (8 * (off & 3)) & (1<<(8*width) - 1))
}

func (w *window) Store(off uint64, width int, v uint64) {
	if width == 8 {
		w.Store(off, 4, v&0xFFFFFFFF)
		w.Store(off+4, 4, v>>32)
		return
	}
	if width < 4 {
		shift, mask := 8*(off&3), uint64(1)<<(8*width)-1
		v = uint64(w.word(off&^3))&^(mask<<shift) | v&mask<<shift
		off &^= 3
	}
	l := w.target.Load()
	if l == nil || w.id {
		return
	}
	store := func(xy chip.XY) error { return w.tun.Store32(context.Background(), xy, l.addr+off, uint32(v)) }
	// An error loses the tunnel.
	if l.multicast {
		_ = l.each(store)
	} else {
		_ = store(l.to)
	}
}

func (w *window) Read(off uint64, p []byte) {
	l := w.target.Load()
	if l == nil || l.multicast || w.tun.move(l.to, l.addr+off, p, false) != nil {
		for i := range p {
			p[i] = 0xFF
		}
	}
}

func (w *window) Write(off uint64, p []byte) {
	l := w.target.Load()
	switch {
	case l == nil:
	case l.multicast:
		_ = w.tun.multicast(l, l.addr+off, p)
	default:
		_ = w.tun.move(l.to, l.addr+off, p, true)
	}
}

// registers is where a Tensix or Ethernet tile's word-only registers start.
const registers = 0xFFB00000

// move copies between a tile and p: aligned blocks at once, the rest by words.
func (t *Tunnel) move(xy chip.XY, addr uint64, p []byte, store bool) (err error) {
	block := t.Read
	if store {
		block = t.Write
	}
	for len(p) > 0 && err == nil {
		n := len(p) &^ 31
		if addr%32 == 0 && n > 0 && addr < registers {
			err = block(context.Background(), xy, addr, p[:n])
		} else {
			n = min(len(p), 4-int(addr&3))
			err = t.moveWord(xy, addr, p[:n], store)
		}
		p, addr = p[n:], addr+uint64(n)
	}
	return err
}

// moveWord copies a word or a part of one.
func (t *Tunnel) moveWord(xy chip.XY, addr uint64, p []byte, store bool) error {
	var b [4]byte
	if !store || len(p) < 4 {
		v, err := t.Load32(context.Background(), xy, addr&^3)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint32(b[:], v)
	}
	if store {
		copy(b[addr&3:], p)
		return t.Store32(context.Background(), xy, addr&^3, binary.LittleEndian.Uint32(b[:]))
	}
	copy(p, b[addr&3:])
	return nil
}

func (l *windowTarget) each(do func(xy chip.XY) error) error {
	for y := l.from.Y; y <= l.to.Y; y++ {
		for x := l.from.X; x <= l.to.X; x++ {
			if err := do(chip.XY{X: x, Y: y}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Command buffer 0 of a Wormhole tile's NoC interface 0, and CTRL's value for a multicast
// (tt-isa-documentation WormholeB0/NoC/MemoryMap.md; kernels/include/reprise/noc.h).
const (
	niuBase     = 0xFFB20000
	niuTarget   = 0x00
	niuTargetXY = 0x04
	niuReturn   = 0x0C
	niuReturnXY = 0x10
	niuTag      = 0x18
	niuControl  = 0x1C
	niuBytes    = 0x20
	niuCommand  = 0x28
	niuNodeID   = 0x2C
	niuAcks     = 0x204

	multicastWrite = 1<<1 | 1<<4 | 1<<5 | 1<<7 | 1<<8 | 4<<13
	maxBurst       = 8192
)

// bulkMulticast is from how many bytes on a tile multicasts itself, by a dozen words of requests.
const bulkMulticast = 64

// multicast writes long data to one tile, whose NoC interface multicasts it: loading all cores'
// firmware would take 80 times as long otherwise.
func (t *Tunnel) multicast(l *windowTarget, addr uint64, p []byte) error {
	if len(p) < bulkMulticast || addr >= registers || addr%16 != 0 || l.from == l.to {
		return l.each(func(xy chip.XY) error { return t.move(xy, addr, p, true) })
	}
	if err := t.move(l.from, addr, p, true); err != nil {
		return err
	}
	others := uint32(l.to.X-l.from.X+1)*uint32(l.to.Y-l.from.Y+1) - 1
	pack := func(xy chip.XY) uint32 { return uint32(xy.X) | uint32(xy.Y)<<6 }
	before, err := t.Load32(context.Background(), l.from, niuBase+niuAcks)
	if err != nil {
		return err
	}
	for left := len(p); left > 0; left -= maxBurst {
		n := min(left, maxBurst)
		at := uint32(addr) + uint32(len(p)-left)
		for _, r := range [...]struct {
			reg uint64
			v   uint32
		}{
			{niuTarget, at}, {niuTargetXY, pack(l.from) << 4}, {niuReturn, at},
			{niuReturnXY, (pack(l.from)<<12 | pack(l.to)) << 4}, {niuTag, 0}, {niuControl, multicastWrite}, {niuBytes, uint32(n)},
			{niuCommand, 1},
		} {
			if err := t.Store32(context.Background(), l.from, niuBase+r.reg, r.v); err != nil {
				return err
			}
		}
		before += others
		for start := time.Now(); ; {
			v, err := t.Load32(context.Background(), l.from, niuBase+niuAcks)
			if err != nil {
				return err
			}
			if v == before {
				break
			}
			if time.Since(start) > t.limit {
				t.mu.Lock()
				defer t.mu.Unlock()
				t.lost = cmp.Or(t.lost, fmt.Errorf("%w: a multicast of %d bytes from %v: %d tiles have not acknowledged", ErrNoAnswer, n,
					l.from, before-v))
				return t.lost
			}
		}
	}
	return nil
}

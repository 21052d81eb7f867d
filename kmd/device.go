package kmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// Device is an open Tenstorrent device. Its methods may be called from any goroutine.
type Device struct {
	path   string
	target Target
	sys    System
	flags  int // of open(2)
	file   *liveFile
	numa   int // NUMA node of the card, or negative
	arch   chip.Arch
	params *chip.Params
	info   Info
	cache  windowCache

	lost   atomic.Pointer[LostError]
	closed atomic.Bool

	features   features
	powerMu    sync.Mutex
	powerHolds [4]int // by bit of Power
	cleanupMu  sync.Mutex
	cleanups   []seam.File // one for each cleanup write after the first
	mapMemory  func(size, page, node int) ([]byte, error)

	mu      sync.Mutex
	windows map[*Window]struct{}
	memory  map[*HostMemory]struct{}
	stale   map[*HostMemory]struct{} // not pinned again since Recover
}

// Info is the PCI identity of a device and the version of its driver.
type Info struct {
	Vendor, Device                   uint16 // PCI ids
	SubsystemVendor, SubsystemDevice uint16 // the subsystem device identifies the board
	Domain                           uint16 // PCI address
	Bus, Slot, Function              uint8
	Driver                           Version
}

// Version is a release of the kernel driver.
type Version struct{ Major, Minor, Patch uint8 }

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// BDF returns the PCI address in the usual form, "0000:01:00.0".
func (i Info) BDF() string {
	return fmt.Sprintf("%04x:%02x:%02x.%d", i.Domain, i.Bus, i.Slot, i.Function)
}

// Option changes how a device is opened.
type Option func(*options)

type options struct {
	flags     int
	sys       *System
	noWait    bool
	mapMemory func(size, page, node int) ([]byte, error)
}

// Exclusive makes Open wait until the device is open nowhere else, and bars others. Drivers before
// 2.10.0 ignore it.
func Exclusive() Option { return func(o *options) { o.flags |= syscall.O_EXCL } }

// WithoutWaiting makes Open fail with ErrBusy instead of waiting for an exclusive opener.
func WithoutWaiting() Option { return func(o *options) { o.noWait = true } }

// InSystem sets the machine of the device, where SystemOf can't know it.
func InSystem(s System) Option { return func(o *options) { o.sys = &s } }

// WithoutPower opens the device without requesting clocks and memory wake-up, as for firmware that
// hangs. Drivers before 2.6.0 ignore it.
func WithoutPower() Option { return func(o *options) { o.flags |= syscall.O_APPEND } }

const busyPoll = 10 * time.Millisecond

// Open opens a device, waiting for another process's exclusive use to end until ctx ends. Errors
// are *OpError; they match ErrNoDevice, ErrPermission, ErrNotDevice, ErrUnsupportedArch,
// ErrDriverTooOld, ErrBusy or ErrUnsupportedSystem.
func Open(ctx context.Context, t Target, opts ...Option) (*Device, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	d := &Device{path: t.String(), target: t, flags: o.flags, file: &liveFile{}, mapMemory: mapMemory,
		windows: map[*Window]struct{}{}, memory: map[*HostMemory]struct{}{}, stale: map[*HostMemory]struct{}{}}
	d.cache.dev = d
	if o.mapMemory != nil {
		d.mapMemory = o.mapMemory
	}
	if d.sys = SystemOf(t); o.sys != nil {
		d.sys = *o.sys
	}
	fail := func(err error) (*Device, error) { return nil, d.opError(err, "open") }

	f, err := openNode(ctx, t, o.flags, o.noWait)
	if err != nil {
		return fail(err)
	}
	d.file.swap(f)
	if err := d.identify(ctx); err != nil {
		return fail(errors.Join(err, d.file.Close()))
	}
	d.numa = -1
	if n, ok := d.sys.int(pciDir + "/" + d.info.BDF() + "/numa_node"); ok {
		d.numa = int(n)
	}
	return d, nil
}

func openNode(ctx context.Context, t Target, flags int, noWait bool) (seam.File, error) {
	node := t.Node()
	for {
		var f seam.File
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := uninterrupted(ctx, func() (err error) {
			f, err = node.Open(syscall.O_RDWR | syscall.O_NONBLOCK | flags)
			return err
		})
		if err == nil {
			return f, nil
		}
		if cause := ctx.Err(); cause != nil && errors.Is(err, cause) {
			return nil, err
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return nil, classifyOpen(err)
		}
		if noWait {
			return nil, fmt.Errorf("%w: a process holds the device exclusively (%w)", ErrBusy, err)
		}
		if err := sleep(ctx, busyPoll); err != nil {
			return nil, fmt.Errorf("%w: another process holds the device exclusively: %w", ErrBusy, err)
		}
	}
}

func (d *Device) identify(ctx context.Context) error {
	var dev kabi.GetDeviceInfo
	err := ioctlContext(ctx, d.file, kabi.IoctlGetDeviceInfo, &dev)
	switch {
	case errors.Is(err, syscall.ENOTTY), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOTSUP):
		return fmt.Errorf("%w (%w)", ErrNotDevice, err)
	case err != nil:
		return classify(err)
	}
	drv, err := driverInfo(ctx, d.file)
	if err != nil {
		return classify(err)
	}
	o := &dev.Out
	d.info = Info{
		Vendor: o.VendorID, Device: o.DeviceID,
		SubsystemVendor: o.SubsystemVendorID, SubsystemDevice: o.SubsystemID,
		Domain: o.PCIDomain, Bus: uint8(o.BusDevFn >> 8), Slot: uint8(o.BusDevFn >> 3 & 31), Function: uint8(o.BusDevFn & 7),
		Driver: Version{drv.DriverVersionMajor, drv.DriverVersionMinor, drv.DriverVersionPatch},
	}
	if d.arch = archOf(o.VendorID, o.DeviceID); !d.arch.Valid() {
		return &UnknownDeviceError{Vendor: o.VendorID, Device: o.DeviceID}
	}
	d.params = d.arch.Params()
	// An unknown request and a bad argument have the same errno, so this compares the version.
	// Interface 2 (driver 2.0.0) is the first with NoC addresses for pinned memory.
	if drv.DriverVersion < kabi.DriverAPIVersion {
		return fmt.Errorf("%w: its interface is version %d, want %d: install tt-kmd %s or newer",
			ErrDriverTooOld, drv.DriverVersion, kabi.DriverAPIVersion, kabi.OldestDriver)
	}
	return nil
}

// archOf returns 0 for a device that isn't known.
func archOf(vendor, device uint16) chip.Arch {
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		if p := a.Params().PCI; p.Vendor == vendor && p.Device == device {
			return a
		}
	}
	return 0
}

func (d *Device) opError(err error, op string, args ...any) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: fmt.Sprintf(op, args...), Path: d.path, Err: err}
}

func (d *Device) usable() error {
	if d.closed.Load() {
		return ErrClosed
	}
	return d.Lost()
}

// Lost returns the *LostError of a device that is known to be lost, without looking for it.
func (d *Device) Lost() error {
	if e := d.lost.Load(); e != nil {
		return e
	}
	return nil
}

// lose returns the first reason.
func (d *Device) lose(found string, err error) error {
	if f := d.file.Fault(); f != nil {
		found, err = "", f
	}
	e := &LostError{found, err}
	if !d.lost.CompareAndSwap(nil, e) {
		if first := d.lost.Load(); first != nil {
			return first
		}
	}
	return e
}

func (d *Device) String() string { return d.path }

// Arch returns the device's architecture.
func (d *Device) Arch() chip.Arch { return d.arch }

// Params returns the architecture's constants, for reading.
func (d *Device) Params() *chip.Params { return d.params }

// Info returns the device's PCI identity and its driver's version.
func (d *Device) Info() Info { return d.info }

func (d *Device) otherHolders() string {
	var names []string
	for _, h := range d.sys.holdersOf(d.info.BDF()) {
		if h.PID != os.Getpid() {
			names = append(names, h.String())
		} else if others := h.Files - d.Files(); others > 0 {
			names = append(names, fmt.Sprintf("this process %s more", times(others)))
		}
	}
	if len(names) == 0 {
		return " (who has it open: /proc/driver/tenstorrent/*/pids)"
	}
	return " (open by " + strings.Join(names, ", ") + ")"
}

// Files returns how many files of the node this Device has open: one, and one for each further
// store of [Device.SetNOCCleanups].
func (d *Device) Files() int {
	d.cleanupMu.Lock()
	defer d.cleanupMu.Unlock()
	return 1 + len(d.cleanups)
}

// Fault returns why an emulator or simulator stopped. On silicon it is nil.
func (d *Device) Fault() error { return d.file.Fault() }

// Alive checks that the file is valid and that a register isn't all ones. Otherwise the error
// matches ErrDeviceLost, and the device stays lost.
func (d *Device) Alive() error {
	err := d.usable()
	if err == nil {
		err = d.alive()
	}
	return d.opError(err, "check")
}

func (d *Device) alive() error {
	if d.file.Fault() != nil {
		return d.lose("", nil)
	}
	if _, err := driverInfo(context.Background(), d.file); err != nil {
		if errors.Is(err, syscall.ENODEV) {
			return d.lose(wasReset, err)
		}
		return classify(err)
	}
	v, err := d.nodeID()
	switch {
	case err != nil && errors.Is(err, ErrDeviceLost):
		return err
	case err != nil:
		return fmt.Errorf("map the node id register: %w", classify(err))
	case v == allOnes:
		return d.lose("it reads all ones, also from its node id register: it fell off the bus, is in reset, or needs a reset", nil)
	}
	return nil
}

// nodeID reads the NoC coordinate register of the PCIe bridge, never all ones on a chip that
// answers (tt-umd device/tt_device/hang_detection).
func (d *Device) nodeID() (v uint32, err error) {
	reg := uint64(d.params.BAR.NIU[0]) + 0x44
	if d.arch == chip.Wormhole {
		// The ARC's interface: some hosts can't reach the bridge's own.
		reg = uint64(d.params.BAR.ARCAPB) + uint64(d.params.ARC.NIU[0]) + 0x2C
	}
	page := reg &^ (hostPage() - 1)
	m, err := d.mmap(page, int(hostPage()))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Unmap()) }()
	io, size := m.IO, uint64(0)
	if io == nil {
		io, size = deviceMemoryOf(m.Mem), hostPage()
	}
	err = d.guard(addressOf(m.Mem), size, func() error {
		v = uint32(io.Load(reg-page, 4))
		return nil
	})
	return v, err
}

// Close closes every window and the device, and unpins and unmaps all pinned memory, none of which
// may be in use. Further calls do nothing.
func (d *Device) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	errs := []error{d.closeCleanupFiles()} // before memory is unpinned
	d.cache.close()
	d.mu.Lock()
	windows, memory := d.windows, d.memory
	d.windows, d.memory = nil, nil
	d.mu.Unlock()
	for _, w := range inOrder(windows, (*Window).ID) {
		errs = append(errs, w.release())
	}
	for _, m := range inOrder(memory, (*HostMemory).NOCAddr) {
		errs = append(errs, m.release())
	}
	d.mu.Lock()
	stale := d.stale
	d.stale = nil
	d.mu.Unlock()
	for m := range stale {
		errs = append(errs, m.unmap())
	}
	errs = append(errs, d.file.Close())
	return d.opError(errors.Join(errs...), "close")
}

func inOrder[T comparable, K cmp.Ordered](set map[T]struct{}, key func(T) K) []T {
	return slices.SortedFunc(maps.Keys(set), func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}

// Target is what Open opens: a device node, an emulated card, or the vendor's simulator. Only this
// module can implement it.
type Target interface {
	Node() seam.Node
	String() string // for errors and reports
}

// Path is the target of a device node such as /dev/tenstorrent/0. Except on Linux opening it fails
// with ErrUnsupportedSystem.
func Path(p string) Target { return pathTarget(p) }

type pathTarget string

func (p pathTarget) Node() seam.Node { return hostNode(string(p)) }

func (p pathTarget) String() string { return string(p) }

// Guard turns a fault of the device's memory in fn's goroutine into an error that matches
// ErrDeviceLost: after a reset or removal an access raises SIGBUS, which would end the process.
// Other faults stay panics.
func (d *Device) Guard(fn func() error) (err error) { return d.guard(0, 0, fn) }

// guard is Guard with one more mapping of the device.
func (d *Device) guard(at, size uint64, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if e := recover(); e != nil {
			err = d.lostBy(e, at, size)
		}
	}()
	return fn()
}

// LostBy replaces a Guard that is too expensive: the caller sets debug.SetPanicOnFault, recovers,
// and passes the value. LostBy returns a fault of the device's memory as an error, and panics again
// with other values.
func (d *Device) LostBy(recovered any) error { return d.lostBy(recovered, 0, 0) }

func (d *Device) lostBy(recovered any, at, size uint64) error {
	if _, ok := recovered.(seam.MappingFault); !ok {
		fault, ok := recovered.(interface{ Addr() uintptr })
		if !ok || uint64(fault.Addr())-at >= size && !d.faulted(uint64(fault.Addr())) {
			panic(recovered)
		}
	}
	return d.lose("an access to its memory faulted: it was reset or removed", nil)
}

// faulted reports a fault in a window, or of a device that the driver says is gone. A reset of the
// PCIe link revokes mappings and leaves the file valid.
func (d *Device) faulted(addr uint64) bool {
	d.mu.Lock()
	for w := range d.windows {
		if w.addr != 0 && addr >= w.addr && addr < w.addr+w.size {
			d.mu.Unlock()
			return true
		}
	}
	d.mu.Unlock()
	return d.gone()
}

// Uplink is the Ethernet link that joins a chip without a PCI interface to one that has it.
type Uplink struct {
	// Near is the chip at the other end, opened for this Device and closed with it. The far chip
	// reaches memory pinned for Near.
	Near *Device
	Link Link
	// Check returns an error that matches ErrLinkDown if the near end reports the link down.
	Check func() error
}

// Link is an Ethernet link between two chips.
type Link struct {
	Name        string  // both ends, for errors
	Near, Far   chip.XY // raw NoC 0 coordinates of the tiles
	NearChannel int     // among the working Ethernet tiles of the local chip
}

// Uplink returns the chip's way to the host, nil with its own PCI interface. Recover may change it.
func (d *Device) Uplink() *Uplink {
	if f, ok := as[interface{ Uplink() *Uplink }](d.file); ok {
		return f.Uplink()
	}
	return nil
}

// EngineWait describes what the oldest unexecuted Tensix instruction of T core thread 0 to 2 waits
// for; "" if there is none. It returns false if the device can't tell, as silicon and the vendor's
// simulator.
func (d *Device) EngineWait(virtual chip.XY, thread int) (wait string, known bool) {
	f, ok := as[interface {
		EngineWait(x, y uint8, thread int) (string, bool)
	}](d.file)
	if !ok {
		return "", false
	}
	return f.EngineWait(virtual.X, virtual.Y, thread)
}

// CoreDebug reports whether the processors' debug interface works, as on silicon and the emulator.
// The vendor's simulator stops at its registers.
func (d *Device) CoreDebug() bool {
	f, ok := as[interface{ CoreDebug() bool }](d.file)
	return !ok || f.CoreDebug()
}

// RemoteFault is Fault of the chip without a PCI interface at x, y.
func (d *Device) RemoteFault(x, y uint8) error {
	if f, ok := as[interface{ RemoteFault(x, y uint8) error }](d.file); ok {
		return f.RemoteFault(x, y)
	}
	return nil
}

package driver

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/internal/kabi"
)

type device struct {
	drv     *Driver
	name    string
	ordinal int
	cfg     Config
	arch    *arch
	bdf     uint16
	node    Node
	dma     iommu
	faults  faults

	// reset is held for writing by a reset, else for reading; mmap only tries.
	reset sync.RWMutex

	mu        sync.Mutex
	wake      *sync.Cond // of mu: a file closed, a lock was released, a reset happened
	fn        Function
	files     map[*file]struct{}
	excl      bool
	gen       uint64
	needsInit bool // between a reset and POST_RESET
	detached  bool
	tlbs      [kabi.MaxInboundTLBs]bool
	iatu      iatu
	locks     [kabi.LockCount]*file
	power     kabi.PowerState
	powerSent int
	barSize   [6]uint64
	exports   exports

	// forPeers is fn for other cards, without mu, whose holder may wait for them.
	forPeers atomic.Pointer[Function]

	// strided has a bit for each strided multicast register written through BAR 0. The driver
	// zeroes all on every configuration, the model only those: the vendor's simulator lacks them.
	strided      atomic.Uint32
	kernelWindow sync.Mutex // held while the driver's own window is in use
}

func newDevice(drv *Driver, ordinal int, bdf uint16) *device {
	p := drv.p
	d := &device{
		drv:     drv,
		name:    fmt.Sprintf("%s%d", drv.cfg.Name, ordinal),
		ordinal: ordinal,
		cfg:     drv.cfg,
		arch:    archOf(p),
		bdf:     bdf,
	}
	copy(d.barSize[:], p.PCI.BARSize[:])
	d.files = map[*file]struct{}{}
	d.wake = sync.NewCond(&d.mu)
	d.node.dev = d
	d.dma.limit = d.arch.dmaLimit
	d.iatu.arch = d.arch
	for i := range d.iatu.regions {
		d.iatu.regions[i].free = true
	}
	d.tlbs[p.BAR.KernelWindow] = true
	return d
}

func (d *device) address() string {
	return fmt.Sprintf("0000:%02x:%02x.%x", d.bdf>>8, d.bdf>>3&31, d.bdf&7)
}

func (d *device) attach(fn Function) {
	d.fn = fn
	fn.AttachDMA(&d.dma)
	d.forPeers.Store(&fn)
}

// open admits a file as admit_chardev_open of tt-kmd: O_EXCL waits until no file is open, others
// until no O_EXCL file is. With O_NONBLOCK either is EAGAIN.
func (d *device) open(by *Process, flags int) (*file, error) {
	excl := flags&syscall.O_EXCL != 0 && d.cfg.Version.atLeast(10)
	nonblock := flags&syscall.O_NONBLOCK != 0
	f := &file{dev: d, proc: by, refs: 1, tlbs: map[uint32]int{}, fileMemory: fileMemory{bufs: map[uint8]*reach{}}}
	f.power.Validity = kabi.PowerValidity(kabi.PowerFlagCount, 0)
	aware := flags&syscall.O_APPEND != 0
	if !aware {
		f.power.PowerFlags = kabi.PowerAll &^ kabi.PowerMaxAIClock
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.detached {
		return nil, syscall.ENODEV
	}
	f.gen = d.gen // a reset while the open waits makes the file stale (tt-kmd chardev.c, tt_cdev_open)
	for signals := by.signals.Load(); excl && (len(d.files) > 0 || d.faults.second) || !excl && d.excl; {
		if nonblock {
			return nil, syscall.EAGAIN
		}
		d.wake.Wait()
		if by.signals.Load() != signals {
			return nil, syscall.EINTR
		}
		if d.detached {
			return nil, syscall.ENODEV
		}
	}
	if d.fn == nil {
		fn, err := d.cfg.Start()
		if err != nil {
			// No errno: the card isn't missing.
			return nil, fmt.Errorf("driver: start %s: %w", d.name, err)
		}
		d.attach(fn)
	}
	d.excl = excl
	f.fd = by.descriptor()
	d.files[f] = struct{}{}
	d.unplugLaterLocked()
	if !aware && !d.needsInit {
		d.aggregatePowerLocked()
	}
	return f, nil
}

func (d *device) unplugLaterLocked() {
	if u := &d.faults; u.unplugAfter > 0 && u.unplug == nil && len(d.files) > 0 {
		// No caller is left to return the error of closing the chip to.
		u.unplug = time.AfterFunc(u.unplugAfter, func() { _ = d.remove() })
	}
}

// Live files' flags are combined by or, settings by maximum. An undeclared flag counts as on
// (tt-kmd chardev.c).
func (d *device) aggregatePowerLocked() {
	if !d.cfg.Version.atLeast(6) {
		return
	}
	var sum kabi.PowerState
	var most uint8
	for f := range d.files {
		if f.gen != d.gen {
			continue
		}
		flags, settings := f.power.Validity&0xF, f.power.Validity>>4
		undeclared := uint16(kabi.PowerAll) &^ (1<<flags - 1)
		sum.PowerFlags |= f.power.PowerFlags | undeclared
		most = max(most, settings)
		for i := range min(int(settings), kabi.PowerSettingCount) {
			sum.PowerSettings[i] = max(sum.PowerSettings[i], f.power.PowerSettings[i])
		}
	}
	sum.Validity = kabi.PowerValidity(kabi.PowerFlagCount, most)
	d.power = sum
	d.powerSent++
}

func (d *device) remove() error {
	d.reset.Lock()
	d.mu.Lock()
	d.detached = true
	d.zapLocked()
	end := d.detachLocked()
	for f := range d.files {
		d.releasePagesLocked(&f.fileMemory)
	}
	d.exports.revoke()
	d.wake.Broadcast()
	d.mu.Unlock()
	d.reset.Unlock()
	return end()
}

// detachLocked takes the function away, if there is one, and returns its Close.
func (d *device) detachLocked() func() error {
	fn := d.fn
	if fn == nil {
		return func() error { return nil }
	}
	d.fn = nil
	d.forPeers.Store(nil)
	return fn.Close
}

// zapLocked makes all mappings fault (tt-kmd memory.c, tenstorrent_vma_zap).
func (d *device) zapLocked() {
	for f := range d.files {
		for m := range f.maps {
			m.zap()
			delete(f.maps, m)
			if m.window >= 0 {
				f.tlbs[uint32(m.window)]--
			}
		}
	}
}

// release takes the driver's order: cleanup write, pins and buffers, locks, windows, power.
func (d *device) release(f *file) error {
	d.reset.RLock()
	defer d.reset.RUnlock()
	if f.cleanup.Enabled != 0 && !d.isDetached() {
		d.kernelWrite32(f.cleanup.X, f.cleanup.Y, f.cleanup.NOC, f.cleanup.Addr, uint32(f.cleanup.Data))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releasePagesLocked(&f.fileMemory)
	f.dropDescriptorLocked()
	for i, holder := range d.locks {
		if holder == f {
			d.locks[i] = nil
		}
	}
	d.freeWindowsLocked(f)
	delete(d.files, f)
	idle := f.power.Validity == kabi.PowerValidity(kabi.PowerFlagCount, 0) && f.power.PowerFlags == 0
	if !d.detached && !d.needsInit && !idle {
		d.aggregatePowerLocked()
	}
	if len(d.files) == 0 {
		d.excl = false
	}
	d.wake.Broadcast()
	if len(d.files) == 0 && d.cfg.Start != nil {
		return d.detachLocked()()
	}
	return nil
}

func (d *device) freeWindowsLocked(f *file) {
	for id := range f.tlbs {
		d.tlbs[id] = false
	}
	clear(f.tlbs)
}

func (d *device) isDetached() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.detached
}

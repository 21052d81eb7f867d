package kmd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// Caching is the host's memory type of a window: a physical range has one type at a time.
type Caching uint8

const (
	Uncached      Caching = iota // each load and store is one bus access, in order: registers, polling
	WriteCombined                // neighbouring stores become bursts: bulk data; see Window.Drain
)

func (c Caching) String() string {
	if c == WriteCombined {
		return "write-combined"
	}
	return "uncached"
}

// Ordering is how accesses through a window are ordered on the NoC.
type Ordering uint8

const (
	Strict  Ordering = iota // all in order; every write waits for the one before
	Relaxed                 // writes overtake writes
	Posted                  // reads overtake writes too, and nothing acknowledges a write
)

// hardware returns the register value (tt-isa-documentation WormholeB0/PCIExpressTile/TLBs.md).
func (o Ordering) hardware() chip.Ordering {
	switch o {
	case Relaxed:
		return chip.Relaxed
	case Posted:
		return chip.Posted
	}
	return chip.Strict
}

// WindowConfig is the target of a window.
type WindowConfig struct {
	// Target is the tile's virtual coordinate on NOC; with Multicast the end corner of the
	// rectangle.
	Target chip.XY
	// Addr is the window's start in the tile, a multiple of the window's size.
	Addr uint64
	NOC  chip.NOC
	// Multicast makes stores go to all Tensix tiles from Start to Target, and forbids loads.
	Multicast bool
	// Start is the other corner with Multicast, and zero without.
	Start    chip.XY
	Ordering Ordering
}

// Window is a mapped TLB window. Accesses are single instructions of the method's width and don't
// allocate. Don't configure or close a window during one. A misaligned access, or one outside of
// the window or after Close, doesn't reach the device: a load returns all ones, as on a bus without
// an answer, and Err reports the first.
type Window struct {
	dev       *Device
	id        uint32
	size      uint64
	caching   Caching
	mapping   seam.Mapping
	addr      uint64 // of the mapping; 0 if accesses are observed
	io        seam.MMIO
	name      string
	fault     atomic.Pointer[accessError]
	closed    atomic.Bool
	writeOnly atomic.Bool // a multicast window, from which loads are undefined
	arg       kabi.ConfigureTLB
}

// OpenWindow takes and maps a window of exactly size bytes, for Configure: 1, 2 or 16 MiB on
// Wormhole, 2 MiB or 4 GiB on Blackhole. The error matches ErrOutOfRange for another size and
// ErrBusy if all windows of the size are taken.
func (d *Device) OpenWindow(size uint64, c Caching) (*Window, error) {
	w, err := d.openWindow(size, c)
	return w, d.opError(err, "open %s window of %s", c, humanize.IBytes(size))
}

func (d *Device) openWindow(size uint64, c Caching) (*Window, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	var sizes []string
	known := false
	for _, class := range d.params.Windows {
		sizes = append(sizes, humanize.IBytes(class.Size))
		known = known || class.Size == size
	}
	if !known || c > WriteCombined {
		return nil, fmt.Errorf("%w: %s has windows of %v, uncached or write-combined", ErrOutOfRange, d.arch, sizes)
	}
	var a kabi.AllocateTLB
	a.In.Size = size
	switch err := ioctl(d.file, kabi.IoctlAllocateTLB, &a); {
	case errors.Is(err, syscall.ENOMEM):
		return nil, fmt.Errorf("%w: all windows of this size are taken%s: end a process or close windows (%w)", ErrBusy,
			d.otherHolders(), err)
	case errors.Is(err, syscall.EINVAL):
		// Blackhole boards can have a BAR 4 that is too small for large windows.
		return nil, fmt.Errorf("%w: this board has no windows of this size (%w)", ErrOutOfRange, err)
	case err != nil:
		return nil, d.note(err)
	}
	w := &Window{dev: d, id: a.Out.ID, size: size, caching: c}
	w.name = fmt.Sprintf("window %d (%s, %s)", w.id, humanize.IBytes(size), c)
	off := a.Out.MmapOffsetUC
	if c == WriteCombined {
		off = a.Out.MmapOffsetWC
	}
	m, err := d.mmap(off, int(size))
	if err != nil {
		f := kabi.FreeTLB{In: kabi.FreeTLBIn{ID: w.id}}
		return nil, errors.Join(d.note(err), ioctl(d.file, kabi.IoctlFreeTLB, &f))
	}
	w.mapping, w.io = m, m.IO
	if m.IO == nil {
		w.io, w.addr = deviceMemoryOf(m.Mem), addressOf(m.Mem)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.windows == nil {
		return nil, errors.Join(ErrClosed, w.unmapAndFree())
	}
	d.windows[w] = struct{}{}
	return w, nil
}

func (d *Device) note(err error) error {
	switch {
	case errors.Is(err, syscall.ENODEV):
		if d.gone() {
			return d.lose(wasReset, err)
		}
		// The driver waits for the end of a reset.
		return fmt.Errorf("%w: wait for it, or end it with mode post (%w)", ErrResetting, err)
	case errors.Is(err, syscall.EIO):
		if e := d.alive(); errors.Is(e, ErrDeviceLost) {
			return e
		}
	}
	return classify(err)
}

const mmapTries = 50

// During a reset by another process mmap can't wait and returns ENODEV; gone waits until the reset
// has returned.
func (d *Device) mmap(offset uint64, length int) (m seam.Mapping, err error) {
	for range mmapTries {
		m, err = d.file.Mmap(offset, length)
		if !errors.Is(err, syscall.ENODEV) || d.gone() {
			return m, err
		}
		time.Sleep(time.Millisecond)
	}
	return m, err
}

// gone asks the driver whether the file is dead. ENODEV of mmap doesn't prove it.
func (d *Device) gone() bool {
	_, err := driverInfo(context.Background(), d.file)
	return errors.Is(err, syscall.ENODEV) || d.file.Fault() != nil
}

// ID returns the driver's number of the window, from 0.
func (w *Window) ID() int { return int(w.id) }

// Size returns the window's size in bytes.
func (w *Window) Size() uint64 { return w.size }

// Caching returns the window's memory type.
func (w *Window) Caching() Caching { return w.caching }

func (w *Window) String() string { return w.name }

// Configure re-targets the window. Earlier stores leave the processor first, for the old target,
// without waiting for their arrival. The error matches ErrMisaligned or ErrOutOfRange for a
// configuration that hardware can't hold.
func (w *Window) Configure(c WindowConfig) error {
	if err := w.configure(&c); err != nil {
		return w.dev.opError(err, "configure %s", w.name)
	}
	return nil
}

func (w *Window) configure(c *WindowConfig) error {
	if w.closed.Load() {
		return ErrClosed
	}
	if err := w.dev.usable(); err != nil {
		return err
	}
	switch {
	case c.Addr&(w.size-1) != 0:
		return fmt.Errorf("%w: address %#x is not a multiple of the window's %#x bytes", ErrMisaligned, c.Addr, w.size)
	case w.dev.arch == chip.Wormhole && c.Addr >= 1<<36:
		return fmt.Errorf("%w: address %#x: Wormhole's NoC has 36 address bits", ErrOutOfRange, c.Addr)
	case c.Target.X > 63 || c.Target.Y > 63 || c.Start.X > 63 || c.Start.Y > 63:
		return fmt.Errorf("%w: tile %v from %v: coordinates have 6 bits", ErrOutOfRange, c.Target, c.Start)
	case !c.Multicast && c.Start != chip.XY{}:
		return fmt.Errorf("%w: a start corner %v without multicast", ErrOutOfRange, c.Start)
	case c.NOC > chip.NOC1 || c.Ordering > Posted:
		return fmt.Errorf("%w: network %d, ordering %d", ErrOutOfRange, c.NOC, c.Ordering)
	}
	w.Drain()
	t := &w.arg.In.Config
	w.arg.In.ID = w.id
	*t = kabi.NOCTLBConfig{
		Addr: c.Addr,
		XEnd: uint16(c.Target.X), YEnd: uint16(c.Target.Y),
		XStart: uint16(c.Start.X), YStart: uint16(c.Start.Y),
		NOC:      uint8(c.NOC),
		Ordering: uint8(c.Ordering.hardware()),
	}
	if c.Multicast {
		t.Mcast = 1
	}
	w.writeOnly.Store(c.Multicast)
	return w.dev.note(ioctl(w.dev.file, kabi.IoctlConfigureTLB, &w.arg))
}

// Close unmaps the window and returns it to the driver. Further calls do nothing.
func (w *Window) Close() error {
	w.dev.mu.Lock()
	_, live := w.dev.windows[w]
	delete(w.dev.windows, w)
	w.dev.mu.Unlock()
	if !live {
		return nil
	}
	return w.dev.opError(w.release(), "close %s", w.name)
}

func (w *Window) release() error {
	w.closed.Store(true)
	if err := w.unmapAndFree(); err != nil && w.dev.Lost() == nil {
		return err
	}
	return nil
}

// The driver refuses to free a mapped window.
func (w *Window) unmapAndFree() error {
	w.Drain()
	f := kabi.FreeTLB{In: kabi.FreeTLBIn{ID: w.id}}
	return errors.Join(w.mapping.Unmap(), w.dev.note(ioctl(w.dev.file, kabi.IoctlFreeTLB, &f)))
}

// Accesses returns a mapping of a BAR as a seam.MMIO, for recorders and observers.
func Accesses(mem []byte) seam.MMIO { return deviceMemoryOf(mem) }

func (d deviceMemory) Load(off uint64, width int) uint64 {
	switch width {
	case 1:
		return uint64(load8(d.at(off)))
	case 2:
		return uint64(load16(d.at(off)))
	case 4:
		return uint64(load32(d.at(off)))
	}
	return load64(d.at(off))
}

func (d deviceMemory) Store(off uint64, width int, v uint64) {
	switch width {
	case 1:
		store8(d.at(off), uint8(v))
	case 2:
		store16(d.at(off), uint16(v))
	case 4:
		store32(d.at(off), uint32(v))
	default:
		store64(d.at(off), v)
	}
}

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

package driver

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// Version is the modelled release of tt-kmd.
type Version struct{ Major, Minor, Patch uint8 }

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// atLeast compares the version with 2.minor.
func (v Version) atLeast(minor uint8) bool { return v.Major > 2 || v.Major == 2 && v.Minor >= minor }

// Config describes a machine with Tenstorrent cards.
type Config struct {
	Arch      chip.Arch  // of every card
	Functions []Function // the cards, which Driver.Close closes
	// Start, instead of Functions, makes a single card on first open, until its last reference
	// goes.
	Start func() (Function, error)
	// Name is the prefix of the nodes' names, "/dev/tenstorrent/" if empty.
	Name     string
	Version  Version // of the driver, 2.10.0 if zero
	NoIOMMU  bool    // pins need physically contiguous pages
	NoExport bool    // a kernel before 5.8, which can't export windows as dma-bufs
	// PageSizeAt returns, with NoIOMMU, the size of the contiguous page at an address; nil asks the
	// system.
	PageSizeAt func(va uint64) uint64
	// Ordinals are the nodes' numbers, 0, 1, 2… if nil. Removed cards and containers leave gaps.
	Ordinals []int
	// Addresses are the PCI addresses as bus<<8 | device<<3 | function; buses 1, 2, 3… if nil.
	Addresses []uint16
	NUMANode  int    // of all cards plus one; 0 for none
	BAR4Size  uint64 // in bytes, if not 0; Blackhole's firmware can configure it
}

// ErrConfig is wrapped by New's error for an impossible machine.
var ErrConfig = errors.New("impossible machine")

// Driver is the model of a loaded driver with its devices.
type Driver struct {
	cfg  Config
	p    *chip.Params
	self *Process

	mu      sync.Mutex
	devices []*device
	gone    []*device // unplugged and still open: they keep their numbers
	procs   []*Process

	filesMu sync.Mutex // taken inside of a device's mu, unlike mu
	files   map[int]*file
}

// New loads the driver for a machine. The error wraps ErrConfig.
func New(cfg Config) (*Driver, error) {
	p := cfg.Arch.Params()
	if p == nil {
		return nil, fmt.Errorf("driver: new: architecture %v: %w", cfg.Arch, ErrConfig)
	}
	if (cfg.Start == nil) == (len(cfg.Functions) == 0) {
		return nil, fmt.Errorf("driver: new: want either functions or a way to start one, have %d and start=%t: %w",
			len(cfg.Functions), cfg.Start != nil, ErrConfig)
	}
	if cfg.Version == (Version{}) {
		cfg.Version = Version{2, 10, 0}
	}
	if !cfg.Version.atLeast(0) {
		return nil, fmt.Errorf("driver: new: version %v: the model starts at 2.0: %w", cfg.Version, ErrConfig)
	}
	if cfg.Name == "" {
		cfg.Name = "/dev/tenstorrent/"
	}
	if cfg.BAR4Size != 0 {
		p.PCI.BARSize[4] = cfg.BAR4Size
	}
	if cfg.PageSizeAt == nil {
		cfg.PageSizeAt = pageSizeAt
	}
	d := &Driver{cfg: cfg, p: p, files: map[int]*file{}}
	d.self = d.NewProcess(os.Getpid(), "self")
	for i := range max(1, len(cfg.Functions)) {
		n, bdf := i, uint16(i+1)<<8
		if i < len(cfg.Ordinals) {
			n = cfg.Ordinals[i]
		}
		if i < len(cfg.Addresses) {
			bdf = cfg.Addresses[i]
		}
		dev := newDevice(d, n, bdf)
		if cfg.Start == nil {
			dev.attach(cfg.Functions[i])
		}
		d.devices = append(d.devices, dev)
	}
	return d, nil
}

func (d *Driver) Len() int { return len(d.list()) }

// Node returns the node of device i until another card takes its place.
func (d *Driver) Node(i int) *Node { return &d.list()[i].node }

func (d *Driver) list() []*device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.devices)
}

// Close unloads the driver: files become ENODEV, mappings are zapped, functions closed.
func (d *Driver) Close() error {
	var errs []error
	for _, dev := range d.list() {
		errs = append(errs, dev.remove())
	}
	return errors.Join(errs...)
}

// Node is the device node of one card.
type Node struct{ dev *device }

var _ seam.Node = (*Node)(nil)

func (n *Node) String() string { return n.dev.name }

// Open's O_APPEND, O_EXCL and O_NONBLOCK mean the same as in tt-kmd.
func (n *Node) Open(flags int) (seam.File, error) { return opened(n.dev.open(n.dev.drv.self, flags)) }

// opened avoids a non-nil interface with a nil *file.
func opened(f *file, err error) (seam.File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Ordinal returns the number in the node's name.
func (n *Node) Ordinal() int { return n.dev.ordinal }

// Address returns the device's PCI address in the usual form, "0000:01:00.0".
func (n *Node) Address() string { return n.dev.address() }

// Power returns the flags and settings last sent to the firmware, and the number of sends.
func (n *Node) Power() (flags uint16, settings [14]uint16, sent int) {
	n.dev.mu.Lock()
	defer n.dev.mu.Unlock()
	return n.dev.power.PowerFlags, n.dev.power.PowerSettings, n.dev.powerSent
}

// OpenFiles counts open files, also those that only a mapping keeps.
func (n *Node) OpenFiles() int { return n.dev.openFiles() }

// Unplug takes card i out: mappings fault, files are ENODEV, pins and buffers are gone. Open files
// keep the node's number.
func (d *Driver) Unplug(i int) error { return d.list()[i].remove() }

// Plug replaces an unplugged card, with its PCI address and the lowest free number.
func (d *Driver) Plug(i int, fn Function) (*Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.devices[i]
	open := old.openFiles() > 0
	if !old.isDetached() {
		return nil, fmt.Errorf("driver: plug %s: there is a card: %w", old.address(), ErrConfig)
	}
	d.gone = slices.DeleteFunc(d.gone, func(g *device) bool { return g.openFiles() == 0 })
	if open {
		d.gone = append(d.gone, old)
	}
	n := 0
	for d.takenLocked(n, old, open) {
		n++
	}
	dev := newDevice(d, n, old.bdf)
	dev.attach(fn)
	d.devices[i] = dev
	return &dev.node, nil
}

// takenLocked counts old while it is open.
func (d *Driver) takenLocked(n int, old *device, open bool) bool {
	return slices.ContainsFunc(slices.Concat(d.devices, d.gone), func(dev *device) bool {
		return dev.ordinal == n && (dev != old || open)
	})
}

func (d *device) openFiles() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.files)
}

// Mmap offsets (tt-kmd memory.c). Clients take them from the ioctls.
const (
	offsetStep  = 1 << 36 // BARs 0, 2, 4, each uncached and write-combined, in the order of kabi's mapping ids
	offsetTLBUC = 6 * offsetStep
	offsetTLBWC = 7 * offsetStep
	bufferStep  = 1 << 32
)

// bufferBase is DMA buffer 0's offset: 2^32 pages less 256 buffers.
func bufferBase() uint64 { return (pageSize() - kabi.MaxDMABufs) << 32 }

type arch struct {
	params   *chip.Params
	counts   []int  // usable windows by class
	dmaLimit uint64 // highest bus address of a mapping
	nocLimit uint64 // highest offset in the aperture that the NoC reaches
	regionTB bool   // an outbound region is at most 1 TiB
}

func archOf(p *chip.Params) *arch {
	a := &arch{params: p, nocLimit: p.PCI.NOCSize - 1, dmaLimit: 1<<32 - 1}
	for _, w := range p.Windows {
		n := w.Count
		if w.BAR == 4 {
			n = min(n, int(p.PCI.BARSize[4]/w.Size)) // tt-kmd blackhole.c, blackhole_init
		}
		a.counts = append(a.counts, n)
	}
	if p.Arch == chip.Blackhole {
		a.dmaLimit, a.regionTB = 1<<58-1, true
	}
	return a
}

// BAR 0 windows are at their BAR offset, BAR 4's after BAR 0's size.
func (a *arch) windowByOffset(off uint64) (id uint32, class chip.WindowClass, bar int, start uint64, ok bool) {
	if bar0 := a.params.PCI.BARSize[0]; off >= bar0 {
		bar, off = 4, off-bar0
	}
	for i, w := range a.params.Windows {
		if w.BAR != bar || off < w.Offset || (off-w.Offset)%w.Size != 0 {
			continue
		}
		if n := (off - w.Offset) / w.Size; n < uint64(a.counts[i]) {
			return uint32(w.First) + uint32(n), w, bar, off, true
		}
	}
	return 0, chip.WindowClass{}, 0, 0, false
}

// packWindow truncates as the driver does, and Wormhole has no static virtual channel (tt-kmd
// wormhole.c construct_tlb_config, blackhole.c blackhole_configure_tlb_2M and _4G).
func packWindow(a chip.Arch, size uint64, c *kabi.NOCTLBConfig) (lo, hi uint64) {
	at := uint(0)
	put := func(width uint, v uint64) { // the next bits
		v &= 1<<width - 1
		lo |= v << at
		if at < 64 {
			hi |= v >> (64 - at)
		} else {
			hi |= v << (at - 64)
		}
		at += width
	}
	shift := uint(bits.TrailingZeros64(size))
	n, nocBits, virtual := 36-shift, uint(1), uint(0)
	if a == chip.Blackhole {
		n, nocBits, virtual = 64-shift, 2, 1
	}
	put(n, c.Addr>>shift)
	for _, v := range [...]uint16{c.XEnd, c.YEnd, c.XStart, c.YStart} {
		put(6, uint64(v))
	}
	put(nocBits, uint64(c.NOC))
	put(1, uint64(c.Mcast))
	put(2, uint64(c.Ordering))
	put(1, uint64(c.Linked))
	put(virtual, uint64(c.StaticVC))
	return lo, hi
}

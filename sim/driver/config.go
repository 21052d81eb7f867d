package driver

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/chip"
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

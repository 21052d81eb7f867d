package kmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// IOMMU says whether an IOMMU translates a card's addresses of host memory.
type IOMMU uint8

const (
	IOMMUUnknown     IOMMU = iota // the system's files don't say
	IOMMUTranslating              // any memory can be pinned
	IOMMUOff                      // absent or in passthrough: only physically contiguous memory can be pinned
)

func (i IOMMU) String() string { return [...]string{"unknown", "translating", "off"}[min(i, IOMMUOff)] }

// MarshalText returns i as a word.
func (i IOMMU) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// PCIID identifies a kind of card.
type PCIID struct{ Vendor, Device uint16 }

func (i PCIID) String() string { return fmt.Sprintf("%04x:%04x", i.Vendor, i.Device) }

// MarshalText returns i as lspci prints it.
func (i PCIID) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// Card describes a card. Fields that neither the system nor the firmware reports are zero.
type Card struct {
	Ordinal int    `json:"-"`                // in the node's name; it may change with every boot or reset
	Node    string `json:"node"`             // "/dev/tenstorrent/0", or the name of an emulated card
	BDF     string `json:"pci"`              // PCI address
	Serial  string `json:"serial,omitempty"` // of the board, 16 hexadecimal digits
	ASIC    string `json:"asic,omitempty"`   // of the chip, 16 hexadecimal digits

	Arch      chip.Arch `json:"-"`
	Board     string    `json:"board,omitempty"` // "p150a"
	ID        PCIID     `json:"pci_id"`
	Subsystem PCIID     `json:"subsystem_id"`       // its device identifies the board
	Driver    string    `json:"driver,omitempty"`   // version
	Firmware  string    `json:"firmware,omitempty"` // version of the bundle

	AICLK       *float64 `json:"aiclk_mhz,omitempty"`
	AXICLK      *float64 `json:"axiclk_mhz,omitempty"`
	Temperature *float64 `json:"temperature_c,omitempty"` // of the chip
	Power       *float64 `json:"power_w,omitempty"`
	Current     *float64 `json:"current_a,omitempty"`
	Voltage     *float64 `json:"voltage_v,omitempty"` // of the core
	Heartbeat   *float64 `json:"heartbeat,omitempty"` // a counter that runs while the firmware does

	Harvesting *chip.Harvesting `json:"harvested,omitempty"` // nil if it couldn't be read
	NUMANode   *int             `json:"numa_node,omitempty"`
	IOMMU      IOMMU            `json:"iommu"`
	Holders    []Holder         `json:"holders"` // the processes that had the card open

	// Problem is why opening the card or querying its firmware failed; the other fields are
	// still valid.
	Problem error `json:"-"`
}

// probeWait bounds the queries of an open card; a simulator can be slow to start.
const probeWait = 2 * time.Second

// List finds the machine's cards, sorted by PCI address. It opens each briefly, without a power
// request and without waiting for an exclusive opener.
func (s System) List(ctx context.Context) ([]Card, error) {
	slots, err := s.slots()
	if err != nil {
		return nil, fmt.Errorf("kmd: list devices: %w", err)
	}
	cards := make([]Card, 0, len(slots))
	for _, n := range slots {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("kmd: list devices: %w", err)
		}
		cards = append(cards, s.inspect(ctx, s.Open(n.path()), n))
	}
	return cards, nil
}

// Inspect describes one card.
func Inspect(ctx context.Context, t Target) Card {
	s := SystemOf(t)
	return s.inspect(ctx, t, s.slotOf(t))
}

// slotOf returns a negative ordinal if the system's files lack the target.
func (s System) slotOf(t Target) slot {
	slots, _ := s.slots()
	for _, n := range slots {
		if s.Open(n.path()).String() == t.String() {
			return n
		}
	}
	return slot{ordinal: -1}
}

func (s System) inspect(ctx context.Context, t Target, n slot) Card {
	c := Card{Ordinal: n.ordinal, Node: t.String(), BDF: n.bdf, Driver: s.DriverVersion(), Holders: s.holders(n.ordinal)}
	d, err := Open(ctx, t, WithoutPower(), WithoutWaiting(), InSystem(s))
	if err != nil {
		c.Problem = err
		s.attributes(&c)
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	i := d.Info()
	if o, ok := s.find(i.BDF()); ok && c.Ordinal < 0 {
		c.Ordinal, c.Holders = o.ordinal, withoutOne(s.holders(o.ordinal))
	}
	c.Arch, c.BDF = d.Arch(), i.BDF()
	c.ID, c.Subsystem = PCIID{i.Vendor, i.Device}, PCIID{i.SubsystemVendor, i.SubsystemDevice}
	if c.Driver == "" {
		c.Driver = i.Driver.String()
	}
	s.attributes(&c)
	if h, err := d.Harvesting(ctx); err != nil {
		c.Problem = err
	} else {
		c.Harvesting = &h
	}
	if c.Problem == nil && (c.AICLK == nil || c.Temperature == nil || c.Power == nil || c.Board == "" || c.Firmware == "") {
		// On Wormhole the driver's attributes are missing for two minutes after loading.
		if v, err := d.Telemetry(ctx); err == nil {
			v.fill(&c)
		}
	}
	if err := d.Close(); err != nil && c.Problem == nil {
		c.Problem = err
	}
	return c
}

func (s System) attributes(c *Card) {
	pci := pciDir + "/" + c.BDF
	class := fmt.Sprintf("%s/tenstorrent!%d", classDir, c.Ordinal)
	if c.BDF != "" {
		for name, at := range map[string]*uint16{"vendor": &c.ID.Vendor, "device": &c.ID.Device,
			"subsystem_vendor": &c.Subsystem.Vendor, "subsystem_device": &c.Subsystem.Device} {
			if v, ok := s.hex(pci + "/" + name); ok {
				*at = v
			}
		}
		if n, ok := s.int(pci + "/numa_node"); ok && n >= 0 {
			c.NUMANode = new(int(n))
		}
		c.IOMMU = s.iommu(c.BDF)
	}
	c.Arch = cmp.Or(c.Arch, archOf(c.ID.Vendor, c.ID.Device))
	text := func(at *string, name string) {
		if v, ok := s.read(class + "/" + name); ok && v != "unknown" {
			*at = v
		}
	}
	text(&c.Serial, "tt_serial")
	text(&c.ASIC, "tt_asic_id")
	text(&c.Board, "tt_card_type")
	text(&c.Firmware, "tt_fw_bundle_ver")
	if c.Board == "" {
		c.Board = chip.BoardName(c.Subsystem.Device)
	}
	number := func(at **float64, name string, scale float64) {
		if v, ok := s.int(name); ok {
			*at = new(float64(v) / scale)
		}
	}
	number(&c.AICLK, class+"/tt_aiclk", 1)
	number(&c.AXICLK, class+"/tt_axiclk", 1)
	number(&c.Heartbeat, class+"/tt_heartbeat", 1)
	if l, _ := s.dir(pci + "/hwmon"); len(l) > 0 {
		dir := pci + "/hwmon/" + l[0].Name()
		number(&c.Temperature, dir+"/temp1_input", 1000)
		number(&c.Voltage, dir+"/in0_input", 1000)
		number(&c.Current, dir+"/curr1_input", 1000)
		number(&c.Power, dir+"/power1_input", 1e6)
	}
}

// iommu reports as the driver does: an IOMMU whose domain isn't the identity translates (tt-kmd
// memory.c, test/enumeration.cpp).
func (s System) iommu(bdf string) IOMMU {
	t, ok := s.read(pciDir + "/" + bdf + "/iommu_group/type")
	switch {
	case strings.HasPrefix(t, "DMA"):
		return IOMMUTranslating
	case ok:
		return IOMMUOff
	}
	if s.Root == nil {
		return IOMMUUnknown
	}
	if _, err := fs.Stat(s.Root, pciDir+"/"+bdf); errors.Is(err, fs.ErrNotExist) {
		return IOMMUUnknown
	}
	return IOMMUOff
}

func (t *Telemetry) fill(c *Card) {
	number := func(at **float64, tag chip.TelemetryTag, scale float64) {
		if v, ok := t.Value(tag); ok && *at == nil {
			*at = new(float64(v) / scale)
		}
	}
	number(&c.AICLK, chip.TagAICLK, 1)
	number(&c.AXICLK, chip.TagAXICLK, 1)
	number(&c.Temperature, chip.TagASICTemperature, 1<<16)
	number(&c.Power, chip.TagPower, 1)
	number(&c.Current, chip.TagCurrent, 1)
	number(&c.Voltage, chip.TagVCore, 1000)
	number(&c.Heartbeat, chip.TagHeartbeat, 1)
	if hi, ok := t.Value(chip.TagBoardIDHigh); ok {
		lo, _ := t.Value(chip.TagBoardIDLow)
		if c.Serial == "" {
			c.Serial = fmt.Sprintf("%08X%08X", hi, lo)
		}
		if c.Board == "" {
			c.Board = chip.BoardName(uint16(hi >> 4))
		}
	}
	if hi, ok := t.Value(chip.TagASICIDHigh); ok && c.ASIC == "" {
		lo, _ := t.Value(chip.TagASICIDLow)
		c.ASIC = fmt.Sprintf("%08X%08X", hi, lo)
	}
	if v, ok := t.Value(chip.TagFirmwareBundle); ok && c.Firmware == "" {
		c.Firmware = fmt.Sprintf("%d.%d.%d.%d", v>>24, v>>16&0xFF, v>>8&0xFF, v&0xFF)
	}
}

// Locks lists the locks of the device that are held.
func (d *Device) Locks() ([]LockIndex, error) {
	var l []LockIndex
	for i := range LockIndex(kabi.LockCount) {
		_, any, err := d.TestLock(i)
		if err != nil {
			return nil, err
		}
		if any {
			l = append(l, i)
		}
	}
	return l, nil
}

// System is a machine with cards, as its operating system's files describe it.
type System struct {
	Root fs.FS                    // with dev, proc and sys; nil if there are no such files
	Open func(node string) Target // the target of a node such as /dev/tenstorrent/0
}

// Host is the machine that this process runs on.
func Host() System { return System{Root: hostRoot, Open: Path} }

var (
	hostRoot = os.DirFS("/")
	hostNode = func(path string) seam.Node { return systemNode(path) }
)

// SetHost makes other files and device nodes stand for this machine's, before anything uses them.
func SetHost(root fs.FS, node func(path string) seam.Node) { hostRoot, hostNode = root, node }

// SystemOf returns the machine of a target: Host for a device node, an emulated card's own, and one
// without files for others.
func SystemOf(t Target) System {
	switch m := t.(type) {
	case pathTarget:
		return Host()
	case interface {
		FS() fs.FS
		Beside(node string) seam.Node
	}:
		return System{Root: m.FS(), Open: func(node string) Target { return besideTarget{m.Beside(node)} }}
	case interface{ FS() fs.FS }:
		return System{Root: m.FS(), Open: func(string) Target { return t }}
	}
	return System{Open: func(string) Target { return t }}
}

type besideTarget struct{ node seam.Node }

func (b besideTarget) Node() seam.Node { return b.node }

func (b besideTarget) String() string { return b.node.String() }

const (
	nodeDir  = "dev/tenstorrent"
	pciDir   = "sys/bus/pci/devices"
	classDir = "sys/class/tenstorrent"
)

func (s System) read(name string) (string, bool) {
	if s.Root == nil {
		return "", false
	}
	b, err := fs.ReadFile(s.Root, name)
	return strings.TrimSpace(string(b)), err == nil
}

func (s System) hex(name string) (uint16, bool) {
	t, ok := s.read(name)
	v, err := strconv.ParseUint(strings.TrimPrefix(t, "0x"), 16, 16)
	return uint16(v), ok && err == nil
}

func (s System) int(name string) (int64, bool) {
	t, ok := s.read(name)
	v, err := strconv.ParseInt(t, 10, 64)
	return v, ok && err == nil
}

// DriverVersion returns the loaded driver's version, such as "2.10.0-rc2", or "".
func (s System) DriverVersion() string {
	v, _ := s.read("sys/module/tenstorrent/version")
	return v
}

type slot struct {
	ordinal int
	bdf     string // "" if it isn't known
}

func (n slot) path() string { return fmt.Sprintf("/%s/%d", nodeDir, n.ordinal) }

// slots lists the device nodes by PCI address: node numbers don't follow the order on the bus.
func (s System) slots() ([]slot, error) {
	entries, err := s.dir(nodeDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var l []slot
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n < 0 || strconv.Itoa(n) != e.Name() {
			continue
		}
		l = append(l, slot{n, s.bdfOf(n)})
	}
	slices.SortFunc(l, func(a, b slot) int {
		return cmp.Or(strings.Compare(a.bdf, b.bdf), cmp.Compare(a.ordinal, b.ordinal))
	})
	return l, nil
}

func (s System) bdfOf(ordinal int) string {
	t, _ := s.read(fmt.Sprintf("%s/tenstorrent!%d/device/uevent", classDir, ordinal))
	for line := range strings.Lines(t) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PCI_SLOT_NAME="); ok {
			return v
		}
	}
	return ""
}

func (s System) find(bdf string) (slot, bool) {
	l, _ := s.slots()
	if i := slices.IndexFunc(l, func(n slot) bool { return n.bdf == bdf }); i >= 0 {
		return l[i], true
	}
	return slot{}, false
}

// target returns where a card is now, t if the system's files don't say.
func (s System) target(bdf string, t Target) Target {
	if n, ok := s.find(bdf); ok {
		return s.Open(n.path())
	}
	return t
}

func (s System) dir(name string) ([]fs.DirEntry, error) {
	if s.Root == nil {
		return nil, nil
	}
	return fs.ReadDir(s.Root, name)
}

// PCICards returns the PCI addresses of the machine's Tenstorrent devices, also of those without a
// driver.
func (s System) PCICards() []string {
	entries, _ := s.dir(pciDir)
	var l []string
	for _, e := range entries {
		if v, ok := s.hex(pciDir + "/" + e.Name() + "/vendor"); ok && v == kabi.VendorTenstorrent {
			l = append(l, e.Name())
		}
	}
	slices.Sort(l)
	return l
}

// Holder is a process that has a device open.
type Holder struct {
	PID   int    `json:"pid"`
	Name  string `json:"name,omitempty"` // as in ps, "" if unknown
	Files int    `json:"files"`          // how often the process has the device open
}

func (h Holder) String() string {
	if h.Name == "" {
		return strconv.Itoa(h.PID)
	}
	return fmt.Sprintf("%d (%s)", h.PID, h.Name)
}

// holders lists who has a node open (driver 2.5.0 and newer); processes of other containers are 0.
func (s System) holders(ordinal int) []Holder {
	t, _ := s.read(fmt.Sprintf("proc/driver/tenstorrent/%d/pids", ordinal))
	var l []Holder
	for _, f := range strings.Fields(t) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			continue
		}
		if i := slices.IndexFunc(l, func(h Holder) bool { return h.PID == pid }); i >= 0 {
			l[i].Files++
			continue
		}
		name, _ := s.read(fmt.Sprintf("proc/%d/comm", pid))
		l = append(l, Holder{PID: pid, Name: name, Files: 1})
	}
	slices.SortFunc(l, func(a, b Holder) int { return cmp.Compare(a.PID, b.PID) })
	return l
}

// withoutOne drops this process if its only file is the one of the query.
func withoutOne(l []Holder) []Holder {
	return slices.DeleteFunc(l, func(h Holder) bool { return h.PID == os.Getpid() && h.Files == 1 })
}

func (s System) holdersOf(bdf string) []Holder {
	if n, ok := s.find(bdf); ok {
		return s.holders(n.ordinal)
	}
	return nil
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// Identity returns the board's serial number at a PCI address, "" if unknown, and its NUMA node,
// negative if unknown, without opening a card.
func (s System) Identity(bdf string) (serial string, numaNode int) {
	numaNode = -1
	if n, ok := s.int(pciDir + "/" + bdf + "/numa_node"); ok {
		numaNode = int(n)
	}
	if n, ok := s.find(bdf); ok {
		if v, ok := s.read(fmt.Sprintf("%s/tenstorrent!%d/tt_serial", classDir, n.ordinal)); ok && v != "unknown" {
			serial = v
		}
	}
	return serial, numaNode
}

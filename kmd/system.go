package kmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// System is a machine with cards, as its operating system's files describe it.
type System struct {
	Root fs.FS                    // with dev, proc and sys; nil if there are no such files
	Open func(node string) Target // the target of a node such as /dev/tenstorrent/0
}

// Host is the machine that this process runs on.
func Host() System { return System{Root: os.DirFS("/"), Open: Path} }

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

package kmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/chip"
)

// Status is the outcome of a check.
type Status string

const (
	StatusOK      Status = "ok"      // programs can run
	StatusWarning Status = "warning" // programs run, with limits or at risk
	StatusFailed  Status = "failed"  // programs don't run
	StatusSkipped Status = "skipped" // an earlier check failed, or the system's files don't say
)

// Check is the result of one check.
type Check struct {
	Name   string `json:"name"`
	Device string `json:"device,omitempty"` // the card, "" for a check of the machine
	Status Status `json:"status"`
	Found  string `json:"found"`
	Fix    string `json:"fix"` // what to do, "" if nothing
}

const doctorWindows = 8

// Diagnose checks the machine and its cards for obstacles to running programs.
func (s System) Diagnose(ctx context.Context) []Check {
	x := &examination{s: s}
	x.machine()
	slots, err := s.slots()
	if err != nil {
		x.failed("nodes", err.Error(), "let this user read /dev/tenstorrent")
	}
	for _, n := range slots {
		x.card(ctx, s.Open(n.path()), n)
	}
	return x.checks
}

// DiagnoseTarget checks one card, and its machine if that has files.
func DiagnoseTarget(ctx context.Context, t Target) []Check {
	s := SystemOf(t)
	x := &examination{s: s}
	if s.Root != nil {
		x.machine()
	}
	x.card(ctx, t, s.slotOf(t))
	return x.checks
}

type examination struct {
	s       System
	device  string
	holders []Holder
	checks  []Check
}

func (x *examination) add(name string, st Status, found, fix string) {
	x.checks = append(x.checks, Check{Name: name, Device: x.device, Status: st, Found: found, Fix: fix})
}

func (x *examination) ok(name, found string) { x.add(name, StatusOK, found, "") }

func (x *examination) failed(name, found, fix string) { x.add(name, StatusFailed, found, fix) }

func (x *examination) fail(name string, err error) {
	x.failed(name, cause(err), "reprise reset --device "+x.device)
}

func (x *examination) machine() {
	cards := x.s.PCICards()
	v := x.s.DriverVersion()
	if v != "" {
		x.ok("driver", "tt-kmd "+v+" is loaded")
	} else {
		found := "not loaded"
		if len(cards) > 0 {
			found += fmt.Sprintf("; the cards at %s wait for it", strings.Join(cards, ", "))
		}
		x.failed("driver", found, "sudo modprobe tenstorrent (package tenstorrent-dkms)")
	}
	slots, _ := x.s.slots() // Diagnose reports the error
	unbound := slices.DeleteFunc(slices.Clone(cards), func(bdf string) bool {
		return slices.ContainsFunc(slots, func(n slot) bool { return n.bdf == bdf })
	})
	switch {
	case len(cards) == 0 && len(slots) == 0:
		x.failed("cards", "no Tenstorrent device on the PCI bus",
			"seat the card, connect its power, and look for it with: lspci -d 1e52:")
	case len(unbound) > 0 && v != "":
		x.failed("cards", "without a device node: "+strings.Join(unbound, ", "),
			"see why the driver refused them: sudo dmesg | grep -i tenstorrent; in a container, pass the nodes in")
	case len(unbound) > 0:
		x.add("cards", StatusWarning, fmt.Sprintf("%d on the PCI bus, none usable yet", len(unbound)), "load the driver first")
	default:
		x.ok("cards", fmt.Sprintf("%d with a device node", len(slots)))
	}
}

func (x *examination) card(ctx context.Context, t Target, n slot) {
	x.device, x.holders = t.String(), x.s.holders(n.ordinal)
	const unusable = "not checked: the card can't be used"
	skip := func() {
		for _, c := range []string{"windows", "firmware", "memory", "power", "locks"} {
			x.add(c, StatusSkipped, unusable, "")
		}
	}
	d, err := Open(ctx, t, WithoutPower(), WithoutWaiting(), InSystem(x.s))
	if err != nil {
		fix := "see the message"
		switch {
		case errors.Is(err, ErrPermission):
			fix = "install the driver's udev rule (mode 0666), or give the container the node with \"rw\""
		case errors.Is(err, ErrBusy):
			fix = "wait for the process that holds it exclusively, or end it" + x.named()
		case errors.Is(err, ErrDriverTooOld):
			fix = "install tt-kmd 2.0.0 or newer"
		case errors.Is(err, ErrDeviceLost):
			fix = "finish the reset that is under way: reprise reset --mode post --device " + x.device
		case errors.Is(err, ErrNoDevice):
			fix = "sudo modprobe tenstorrent, and list the nodes there are: reprise ls"
		}
		x.failed("open", cause(err), fix)
		x.add("chip", StatusSkipped, unusable, "")
		skip()
		return
	}
	defer d.Close() // read only: its error loses nothing
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	x.ok("open", fmt.Sprintf("%s at %s, opened without waiting", d.Arch(), d.Info().BDF()))
	if err := d.Alive(); err != nil {
		x.fail("chip", err)
		skip()
		return
	}
	if _, _, err := d.TestLock(LockChipInUse); errors.Is(err, ErrResetting) {
		x.failed("chip", cause(err), "reprise reset --mode post --device "+x.device)
		skip()
		return
	}
	x.ok("chip", "answers")
	if x.windows(d) {
		x.firmware(ctx, d)
	} else {
		x.add("firmware", StatusSkipped, "not checked: it needs a window", "")
	}
	x.memory(d)
	x.power(d)
	x.locks(d)
}

func (x *examination) firmware(ctx context.Context, d *Device) {
	h, err := d.Harvesting(ctx)
	if err != nil {
		x.failed("firmware", cause(err), "reprise reset --device "+x.device+", and update it with tt-flash if that doesn't help")
		return
	}
	found := "answers"
	if t, err := d.Telemetry(ctx); err == nil {
		if v, ok := t.Value(chip.TagFirmwareBundle); ok {
			found = fmt.Sprintf("bundle %d.%d.%d.%d", v>>24, v>>16&0xFF, v>>8&0xFF, v&0xFF)
		}
	}
	c, err := chip.New(d.arch, h)
	if err != nil {
		x.failed("firmware", "it reports fused-off units that no product has: "+err.Error(), "update it with tt-flash")
		return
	}
	w, ht := c.Grid()
	x.ok("firmware", fmt.Sprintf("%s, %dx%d workers", found, w, ht))
}

func (x *examination) memory(d *Device) {
	const want = 4 << 20
	state := x.s.iommu(d.info.BDF())
	m, err := d.Pin(PinConfig{Size: want})
	switch {
	case err == nil:
		found := fmt.Sprintf("%s pinned, IOMMU %s", humanize.IBytes(want), state)
		if n := len(m.pins); n > 1 {
			found += fmt.Sprintf(", in %d huge pages", n)
		}
		if err := m.Close(); err != nil {
			x.fail("memory", err)
			return
		}
		x.ok("memory", found)
	case errors.Is(err, ErrNotContiguous):
		free, _ := x.s.int("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages")
		x.failed("memory", fmt.Sprintf("IOMMU %s, %d free huge pages of 1 GiB", state, free),
			"turn the IOMMU on in the machine's firmware and take iommu=pt off the kernel's command line, or reserve "+
				"huge pages: hugepagesz=1G hugepages=1 on that line")
	case errors.Is(err, ErrBusy):
		x.failed("memory", cause(err), "end one of those processes")
	default:
		x.failed("memory", cause(err), "see the message")
	}
}

func (x *examination) power(d *Device) {
	switch err := d.SetPower(0); {
	case err == nil:
		x.ok("power", "the driver and the firmware take requests")
	case errors.Is(err, ErrDriverTooOld):
		x.add("power", StatusWarning, fmt.Sprintf("driver %v doesn't take requests: the card stays in the state it booted in", d.info.Driver),
			"update the driver to tt-kmd 2.6.0 or newer")
	case errors.Is(err, ErrFirmware):
		x.add("power", StatusWarning, "the card's firmware doesn't take requests: the card stays in the state it booted in",
			"update the firmware with tt-flash")
	default:
		x.failed("power", cause(err), "see the message")
	}
}

func (x *examination) windows(d *Device) bool {
	size := d.params.Windows[0].Size
	var got []*Window
	var err error
	for range doctorWindows {
		var w *Window
		if w, err = d.OpenWindow(size, Uncached); err != nil {
			break
		}
		got = append(got, w)
	}
	for _, w := range got {
		err = errors.Join(err, w.Close())
	}
	switch {
	case err == nil:
		x.ok("windows", fmt.Sprintf("at least %d of %s are free", doctorWindows, humanize.IBytes(size)))
	case errors.Is(err, ErrBusy):
		x.failed("windows", fmt.Sprintf("%d of %s are free, programs want %d", len(got), humanize.IBytes(size), doctorWindows),
			"end a process that has the card open"+x.named())
	default:
		x.fail("windows", err)
	}
	return err == nil
}

func (x *examination) locks(d *Device) {
	l, err := d.Locks()
	if err != nil {
		x.fail("locks", err)
		return
	}
	var names []string
	for _, i := range l {
		names = append(names, i.String())
	}
	switch {
	case slices.Contains(l, LockChipInUse):
		x.add("locks", StatusWarning, "CHIP_IN_USE is held: another program runs on the card"+x.named(), "wait for it, or end it")
	case len(names) > 0:
		x.add("locks", StatusWarning, "held: "+strings.Join(names, ", ")+x.named(),
			"end the process that holds them if it hangs; the driver frees them with its file")
	default:
		x.ok("locks", "all free")
	}
}

func (x *examination) named() string {
	var names []string
	for _, h := range x.holders {
		if h.PID != os.Getpid() {
			names = append(names, h.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ": " + strings.Join(names, ", ")
}

func cause(err error) string {
	var op *OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Error()
	}
	return err.Error()
}

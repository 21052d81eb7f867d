package driver

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing/fstest"

	"github.com/reprise-tt/reprise/chip"
)

// FS is the machine's dev, proc and sys, always current (tt-kmd docs/sysfs-attributes.md,
// enumerate.c, telemetry.c).
func (d *Driver) FS() fs.FS { return machineFS{d} }

type machineFS struct{ d *Driver }

func (m machineFS) Open(name string) (fs.File, error) { return m.d.tree(name).Open(name) }

func (m machineFS) Lstat(name string) (fs.FileInfo, error) {
	return fstest.MapFS(m.d.tree(name)).Lstat(name)
}

func (m machineFS) ReadLink(name string) (string, error) {
	return fstest.MapFS(m.d.tree(name)).ReadLink(name)
}

// For speed tree leaves out other devices' files, and the firmware's values for names below proc.
func (d *Driver) tree(name string) tree {
	t := tree{}
	for _, dev := range d.list() {
		if pci, class := dev.directories(); strings.HasPrefix(name, pci+"/") || strings.HasPrefix(name, class+"/") {
			dev.publish(t, true)
			return t
		}
	}
	t.text("sys/module/tenstorrent/version", d.cfg.Version.String()+"\n")
	d.mu.Lock()
	procs := slices.Clone(d.procs)
	d.mu.Unlock()
	for _, p := range procs {
		t.text(fmt.Sprintf("proc/%d/comm", p.pid), p.name+"\n")
	}
	for _, dev := range d.list() {
		if dev.hasSecond() {
			t.text(fmt.Sprintf("proc/%d/comm", secondPID), secondName+"\n")
		}
		dev.publish(t, !strings.HasPrefix(name, "proc/"))
	}
	return t
}

func (d *device) hasSecond() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.faults.second
}

func (d *device) directories() (pci, class string) {
	return "sys/bus/pci/devices/" + d.address(), fmt.Sprintf("sys/class/tenstorrent/tenstorrent!%d", d.ordinal)
}

func (d *device) publish(t tree, telemetry bool) {
	d.mu.Lock()
	detached, running, waiting := d.detached, d.fn != nil, d.needsInit
	var pids strings.Builder
	for f := range d.files {
		fmt.Fprintf(&pids, "%d\n", f.proc.pid)
	}
	if d.faults.second {
		fmt.Fprintf(&pids, "%d\n", secondPID)
	}
	var config [64]byte
	var sub uint32
	if !detached { // the lock keeps the function open
		for off := uint32(0); off < 64; off += 4 {
			binary.LittleEndian.PutUint32(config[off:], d.configWordLocked(off))
		}
		sub = d.configWordLocked(0x2C)
	}
	d.mu.Unlock()
	if detached {
		return
	}
	t[fmt.Sprintf("dev/tenstorrent/%d", d.ordinal)] = &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}
	t.text(fmt.Sprintf("proc/driver/tenstorrent/%d/pids", d.ordinal), pids.String())

	pci, class := d.directories()
	both := func(name, format string, args ...any) {
		s := fmt.Sprintf(format, args...)
		t.text(pci+"/"+name, s)
		t.text(class+"/device/"+name, s)
	}
	p := d.arch.params
	both("config", "%s", config[:])
	both("vendor", "0x%04x\n", binary.LittleEndian.Uint16(config[0:]))
	both("device", "0x%04x\n", binary.LittleEndian.Uint16(config[2:]))
	both("subsystem_vendor", "0x%04x\n", sub&0xFFFF)
	both("subsystem_device", "0x%04x\n", sub>>16)
	both("revision", "0x%02x\n", config[8])
	both("class", "0x%06x\n", binary.LittleEndian.Uint32(config[8:])>>8)
	speed := "16.0 GT/s PCIe\n"
	if p.Arch == chip.Blackhole {
		speed = "32.0 GT/s PCIe\n"
	}
	for _, of := range []string{"current", "max"} {
		both(of+"_link_speed", "%s", speed)
		both(of+"_link_width", "16\n")
	}
	both("numa_node", "%d\n", d.cfg.NUMANode-1)
	both("uevent", "DRIVER=tenstorrent\nPCI_ID=%04X:%04X\nPCI_SLOT_NAME=%s\n", p.PCI.Vendor, p.PCI.Device, d.address())
	if !d.cfg.NoIOMMU {
		both("iommu_group/type", "DMA-FQ\n")
	}
	t.text(class+"/dev", fmt.Sprintf("511:%d\n", d.ordinal))
	t.text(fmt.Sprintf("%s/tenstorrent/tenstorrent!%d/dev", pci, d.ordinal), fmt.Sprintf("511:%d\n", d.ordinal))
	if !telemetry || !running {
		return
	}
	if waiting {
		for _, name := range []string{"tt_aiclk", "tt_card_type", "tt_serial", "tt_asic_id"} {
			t[class+"/"+name] = &fstest.MapFile{Mode: 0o444, Sys: syscall.ENODATA}
		}
		return
	}
	d.attributes(t, class, pci)
}

// Before a card is started only its ids are known.
func (d *device) configWordLocked(off uint32) uint32 {
	p := d.arch.params
	switch {
	case d.fn != nil:
		return d.fn.ConfigRead(off)
	case off == 0:
		return uint32(p.PCI.Vendor) | uint32(p.PCI.Device)<<16
	}
	return 0
}

func (d *device) telemetryValues() map[chip.TelemetryTag]uint32 {
	d.reset.RLock()
	defer d.reset.RUnlock()
	d.mu.Lock() // keeps the function open
	defer d.mu.Unlock()
	if d.detached || d.fn == nil {
		return nil
	}
	arc := &d.arch.params.ARC
	x, y := uint8(8), uint8(0)
	if d.arch.params.Arch == chip.Wormhole {
		x, y = 0, 10
	}
	word := func(addr uint64) uint32 {
		v, err := d.kernelAccess(x, y, 0, addr, 4, 0, false)
		if err != nil {
			return 0
		}
		return uint32(v)
	}
	fits := func(p uint32, n uint64) bool {
		at := arc.PointerBase + uint64(p)
		return at >= arc.CSM && at+n <= arc.CSM+uint64(arc.CSMSize)
	}
	table, values := word(arc.ResetUnit+uint64(arc.TelemetryTable)), word(arc.ResetUnit+uint64(arc.TelemetryValues))
	if !fits(table, 8) || !fits(values, 4) {
		return nil
	}
	n := word(arc.PointerBase + uint64(table) + 4)
	if !fits(table, 8+4*uint64(n)) {
		return nil
	}
	out := map[chip.TelemetryTag]uint32{}
	for i := range n {
		e := word(arc.PointerBase + uint64(table) + 8 + 4*uint64(i))
		if at := values + e>>16*4; fits(at, 4) {
			out[chip.TelemetryTag(e)] = word(arc.PointerBase + uint64(at))
		}
	}
	return out
}

// attributes adds the firmware's values (tt-kmd wormhole.c wh_sysfs_attributes, blackhole.c
// bh_sysfs_attributes).
func (d *device) attributes(t tree, class, pci string) {
	v := d.telemetryValues()
	has := func(name string, f func(v uint32) string, tag chip.TelemetryTag) {
		if x, ok := v[tag]; ok {
			t.text(class+"/"+name, f(x)+"\n")
		}
	}
	decimal := func(v uint32) string { return fmt.Sprint(v) }
	version := func(v uint32) string { return fmt.Sprintf("%d.%d.%d.%d", v>>24, v>>16&0xFF, v>>8&0xFF, v&0xFF) }
	has("tt_aiclk", decimal, chip.TagAICLK)
	has("tt_axiclk", decimal, chip.TagAXICLK)
	has("tt_arcclk", decimal, chip.TagARCCLK)
	has("tt_heartbeat", decimal, chip.TagHeartbeat)
	has("tt_fw_bundle_ver", version, chip.TagFirmwareBundle)
	has("tt_m3app_fw_ver", version, chip.TagBoardApp)
	if d.arch.params.Arch == chip.Wormhole {
		has("tt_ttflash_ver", version, chip.TagFlashTool)
		has("tt_m3bl_fw_ver", version, chip.TagBoardBoot)
		has("tt_arc_fw_ver", version, chip.TagManagement)
		has("tt_eth_fw_ver", func(v uint32) string { return fmt.Sprintf("%d.%d.%d", v>>16&0xFF, v>>12&0xF, v&0xFFF) }, chip.TagEthernetFW)
	} else {
		has("tt_therm_trip_count", decimal, chip.TagThermalTrips)
	}
	long := func(low chip.TelemetryTag) func(uint32) string {
		return func(high uint32) string { return fmt.Sprintf("%08X%08X", high, v[low]) }
	}
	has("tt_serial", long(chip.TagBoardIDLow), chip.TagBoardIDHigh)
	has("tt_asic_id", long(chip.TagASICIDLow), chip.TagASICIDHigh)
	has("tt_card_type", func(hi uint32) string { return cmp.Or(chip.BoardName(uint16(hi>>4)), "unknown") }, chip.TagBoardIDHigh)
	if high, ok := v[chip.TagASICIDHigh]; ok {
		id := long(chip.TagASICIDLow)(high)
		t[fmt.Sprintf("dev/tenstorrent/by-id/%v-%s", d.arch.params.Arch, id)] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777,
			Data: fmt.Appendf(nil, "../%d", d.ordinal)}
	}
	d.sensors(t, pci+"/hwmon/hwmon3/", v)
}

// sensors adds the directory of sensors. All labels exist (tt-kmd telemetry.c tt_hwmon_is_visible
// and tt_hwmon_read).
func (d *device) sensors(t tree, dir string, v map[chip.TelemetryTag]uint32) {
	t.text(dir+"name", d.arch.params.Arch.String()+"\n")
	labels := map[string]string{"temp1": "asic_temp", "in0": "vcore", "curr1": "current", "power1": "power", "fan1": "fan_rpm"}
	if d.arch.params.Arch == chip.Wormhole {
		labels = map[string]string{"temp1": "asic1_temp", "in0": "vcore1", "curr1": "current1", "power1": "power1"}
	}
	for sensor, label := range labels {
		t.text(dir+sensor+"_label", label+"\n")
	}
	has := func(name string, tag chip.TelemetryTag, f func(uint64) uint64) {
		if x, ok := v[tag]; ok {
			t.text(dir+name, fmt.Sprintf("%d\n", f(uint64(x))))
		}
	}
	times := func(n uint64) func(uint64) uint64 { return func(x uint64) uint64 { return n * x } }
	has("temp1_input", chip.TagASICTemperature, func(x uint64) uint64 { return x * 1000 >> 16 })
	has("temp1_max", chip.TagThrottle, times(1000))
	has("in0_input", chip.TagVCore, times(1))
	has("in0_max", chip.TagVDDLimits, func(x uint64) uint64 { return x >> 16 })
	has("curr1_input", chip.TagCurrent, times(1000))
	has("curr1_max", chip.TagCurrentLimit, times(1000))
	has("power1_input", chip.TagPower, times(1_000_000))
	has("power1_max", chip.TagPowerLimit, times(1_000_000))
	if d.arch.params.Arch == chip.Blackhole {
		has("fan1_input", chip.TagFanRPM, times(1))
	}
}

// tree is a file system as a table from paths to files. Reading a file fails with its Sys, if any.
type tree fstest.MapFS

func (t tree) text(name, s string) { t[name] = &fstest.MapFile{Data: []byte(s), Mode: 0o444} }

func (t tree) Open(name string) (fs.File, error) {
	f, err := fstest.MapFS(t).Open(name)
	if e := t[name]; err == nil && e != nil {
		if why, ok := e.Sys.(error); ok {
			return unreadable{f, &fs.PathError{Op: "read", Path: name, Err: why}}, nil
		}
	}
	return f, err
}

type unreadable struct {
	fs.File
	err error
}

func (u unreadable) Read([]byte) (int, error) { return 0, u.err }

// export is a window's dma-buf; the window stays out of the pool until its last duplicate is
// closed.
type export struct {
	window uint32
	keep   int // see newWatched
}

type exports []export

func (l *exports) live() exports {
	*l = slices.DeleteFunc(*l, func(e export) bool {
		if !closedBy(e.keep) {
			return false
		}
		closeDescriptor(e.keep)
		return true
	})
	return *l
}

func (l *exports) has(id uint32) bool {
	return slices.ContainsFunc(l.live(), func(e export) bool { return e.window == id })
}

func (l *exports) revoke() {
	for _, e := range *l {
		closeDescriptor(e.keep)
	}
	*l = nil
}

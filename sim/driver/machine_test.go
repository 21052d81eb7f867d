//go:build linux

package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"golang.org/x/sys/unix"
)

func (r *rig) file(name string) string {
	r.t.Helper()
	b, err := fs.ReadFile(r.drv.FS(), name)
	expect.Fails(r.t, err, nil, "%s", name)
	return strings.TrimSpace(string(b))
}

func TestAssertion07_DeviceInfoEqualsSysfs(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		r := newRig(t, a)
		f := r.open(0)
		i := kabi.GetDeviceInfo{In: kabi.GetDeviceInfoIn{OutputSizeBytes: 20}}
		want(t, "ioctl", f.Ioctl(kabi.IoctlGetDeviceInfo, kabi.Bytes(&i)), nil)
		dir := "sys/bus/pci/devices/0000:01:00.0/"
		hex := func(v uint16) string { return fmt.Sprintf("%#04x", v) }
		got := []string{r.file(dir + "vendor"), r.file(dir + "device"), r.file(dir + "subsystem_vendor"), r.file(dir + "subsystem_device")}
		w := []string{hex(i.Out.VendorID), hex(i.Out.DeviceID), hex(i.Out.SubsystemVendorID), hex(i.Out.SubsystemID)}
		noDiff(t, got, w, "sysfs, against the ioctl")
		if i.Out.BusDevFn != 0x100 || i.Out.PCIDomain != 0 || r.drv.Node(0).Address() != "0000:01:00.0" {
			t.Errorf("at %#x of domain %d", i.Out.BusDevFn, i.Out.PCIDomain)
		}
		if l := i.Out.MaxDMABufSizeLog2; l < 12 || l > 63 {
			t.Errorf("log2 %d", l)
		}
	})
}

func TestMachineFilesAreAFileSystem(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	if err := fstest.TestFS(r.drv.FS(), "dev/tenstorrent/0", "proc/driver/tenstorrent/0/pids"); err != nil {
		t.Error(err)
	}
}

func exportWindow(f seam.File, a kabi.ExportTLBDMABuf) (int, error) {
	if a.Argsz == 0 {
		a.Argsz = 32
	}
	err := f.Ioctl(kabi.IoctlExportTLBDMABuf, kabi.Bytes(&a))
	return int(a.FD), err
}

func TestAssertion08_ExportArgszIsExact(t *testing.T) {
	f := newRig(t, chip.Blackhole).open(0)
	w, _ := allocate(f, 2<<20)
	for _, n := range []uint32{31, 33} {
		_, err := exportWindow(f, kabi.ExportTLBDMABuf{Argsz: n, TLBID: w.ID})
		want(t, "argsz", err, syscall.EINVAL)
	}
	_, err := exportWindow(f, kabi.ExportTLBDMABuf{Flags: 1, TLBID: w.ID})
	want(t, "flags", err, syscall.EINVAL)
	want(t, "no argument", f.Ioctl(kabi.IoctlExportTLBDMABuf, nil), syscall.EFAULT)
}

func TestAssertion11_BARTooShort(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f := r.open(0)
	w, err := allocate(f, 4<<30)
	want(t, "allocate", err, nil)
	end, err := r.drv.Node(0).Inject(SmallBAR4 + "=0x2000000")
	want(t, "inject", err, nil)
	mmap(t, "a whole window", f, w.MmapOffsetUC, 4<<30, syscall.ENXIO)
	mmap(t, "what there is of it", f, w.MmapOffsetUC, 0x2000000, nil)
	end()
	mmap(t, "afterwards", f, w.MmapOffsetUC, 4<<30, nil)
}

func TestAssertion36_SignalsInterruptOpen(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	p := r.drv.NewProcess(77, "tool")
	for _, flags := range []int{0, syscall.O_EXCL} {
		holder, err := r.drv.Node(0).Open(syscall.O_EXCL - flags)
		want(t, "holder", err, nil)
		done := make(chan error, 1)
		go func() {
			_, err := p.Node(0).Open(flags)
			done <- err
		}()
		for stop := false; !stop; {
			p.Signal()
			select {
			case err := <-done:
				want(t, "interrupted open", err, syscall.EINTR)
				stop = true
			case <-time.After(time.Millisecond):
			}
		}
		want(t, "close", holder.Close(), nil)
	}
	a, b := r.open(0), mustOpen(t, p.Node(0))
	equal(t, value(lock(a, kabi.LockAcquire, 1))(t), 1, "the lock")
	done := wait(r, b, 1)
	for stop := false; !stop; {
		p.Signal()
		select {
		case err := <-done:
			want(t, "interrupted lock", err, syscall.EINTR)
			stop = true
		case <-time.After(time.Millisecond):
		}
	}
}

func mustOpen(t *testing.T, n seam.Node) seam.File {
	t.Helper()
	return value(n.Open(0))(t)
}

func TestAssertion38_ExportsKeepResetsAway(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f, by := r.open(0), r.open(0)
	w, _ := allocate(f, 2<<20)
	fd, err := exportWindow(f, kabi.ExportTLBDMABuf{TLBID: w.ID})
	want(t, "export", err, nil)
	dup, err := unix.Dup(fd)
	want(t, "dup", err, nil)
	unix.CloseOnExec(dup)
	want(t, "close", unix.Close(fd), nil)
	for mode := range uint32(7) {
		_, err := reset(by, mode)
		if mode == kabi.ResetRestoreState || mode == kabi.ResetPost {
			want(t, "re-initialisation", err, nil)
		} else {
			want(t, "reset under a live export", err, syscall.EBUSY)
		}
	}
	want(t, "the exporter is untouched", info(f), nil)
	want(t, "close", unix.Close(dup), nil)
	_, err = reset(by, kabi.ResetASIC)
	want(t, "reset afterwards", err, nil)
}

func TestAssertion42_AnotherNumberSameAddress(t *testing.T) {
	r := newRig(t, chip.Blackhole, func(c *Config) {
		c.Functions = append(c.Functions, newRegFile(chip.Blackhole))
	})
	f := r.open(0)
	m := mmap(t, "map", f, 0, int(pageSize()), nil)
	_, err := r.drv.Plug(0, newRegFile(chip.Blackhole))
	want(t, "plug into a full slot", err, ErrConfig)
	want(t, "unplug", r.drv.Unplug(0), nil)
	want(t, "ioctl", info(f), syscall.ENODEV)
	if !raisesFault(func() { m.IO.Load(0, 4) }) {
		t.Error("the mapping outlived the card")
	}
	_, err = r.drv.Node(0).Open(0)
	want(t, "open of the old node", err, syscall.ENODEV)
	n, err := r.drv.Plug(0, newRegFile(chip.Blackhole))
	want(t, "plug", err, nil)
	equal(t, n.Ordinal(), 2, "n.Ordinal()")
	equal(t, n.Address(), "0000:01:00.0", "n.Address()")
	want(t, "unmap", m.Unmap(), nil)
	want(t, "close", f.Close(), nil)
	want(t, "unplug", r.drv.Unplug(0), nil)
	n, err = r.drv.Plug(0, newRegFile(chip.Blackhole))
	if err != nil || n.Ordinal() != 0 {
		t.Errorf("number %d, %v: want 0, which nobody holds any more", n.Ordinal(), err)
	}
}

func TestAssertion46_Exports(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f, other := r.open(0), r.open(0)
	w, _ := allocate(f, 2<<20)
	page := pageSize()
	for name, a := range map[string]kabi.ExportTLBDMABuf{
		"half a page":       {Offset: page / 2},
		"half a page of it": {Size: page / 2},
		"offset at the end": {Offset: 2 << 20},
		"too long":          {Size: 2<<20 + page},
		"over the end":      {Offset: page, Size: 2 << 20},
		"no such id":        {TLBID: 256},
	} {
		if a.TLBID == 0 {
			a.TLBID = w.ID
		}
		_, err := exportWindow(f, a)
		want(t, name, err, syscall.EINVAL)
	}
	_, err := exportWindow(other, kabi.ExportTLBDMABuf{TLBID: w.ID})
	want(t, "foreign", err, syscall.EPERM)
	_, err = exportWindow(f, kabi.ExportTLBDMABuf{TLBID: 9})
	want(t, "not allocated", err, syscall.EPERM)

	part, err := exportWindow(f, kabi.ExportTLBDMABuf{TLBID: w.ID, Offset: page, Size: page})
	want(t, "a page", err, nil)
	whole, err := exportWindow(f, kabi.ExportTLBDMABuf{TLBID: w.ID})
	want(t, "size 0 is to the end", err, nil)
	want(t, "free", free(f, w.ID), nil)
	if x, _ := allocate(other, 2<<20); x.ID == w.ID {
		t.Error("an exported window is given away after FREE_TLB")
	}
	want(t, "close the file", f.Close(), nil)
	want(t, "close one", unix.Close(part), nil)
	if x, _ := allocate(other, 2<<20); x.ID == w.ID {
		t.Error("an exported window is given away after close")
	}
	want(t, "close the other", unix.Close(whole), nil)
	if x, _ := allocate(other, 2<<20); x.ID != w.ID {
		t.Errorf("got window %d, want the one that isn't exported any more", x.ID)
	}
	old := newRig(t, chip.Blackhole, func(c *Config) { c.NoExport = true }).open(0)
	_, err = exportWindow(old, kabi.ExportTLBDMABuf{})
	want(t, "kernel before 5.8", err, syscall.EOPNOTSUPP)
}

func TestAssertion47_Pids(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	name := "proc/driver/tenstorrent/0/pids"
	equal(t, r.file(name), "", "processes before the first open")
	for range 3 {
		r.open(0)
	}
	other := mustOpen(t, r.drv.NewProcess(4711, "tool").Node(0))
	pids := strings.Fields(r.file(name))
	counts := map[string]int{}
	for _, p := range pids {
		counts[p]++
	}
	self := strconv.Itoa(os.Getpid())
	noDiff(t, counts, map[string]int{self: 3, "4711": 1}, "counts")
	want(t, "close", other.Close(), nil)
	if strings.Contains(r.file(name), "4711") {
		t.Error("a process without a file is listed")
	}
	equal(t, r.file("proc/4711/comm"), "tool", "comm")
}

func TestAssertion48_NodesHaveGapsAndNoOrder(t *testing.T) {
	r := newRig(t, chip.Blackhole, func(c *Config) {
		c.Functions = append(c.Functions, newRegFile(chip.Blackhole), newRegFile(chip.Blackhole))
		c.Ordinals = []int{7, 0, 3}
		c.Addresses = []uint16{0x100, 0x4100, 0x2208}
	})
	r.fn.setTelemetry(map[chip.TelemetryTag]uint32{chip.TagASICIDHigh: 0xAB, chip.TagASICIDLow: 1})
	dir, err := fs.ReadDir(r.drv.FS(), "dev/tenstorrent")
	want(t, "read the directory", err, nil)
	var names []string
	for _, e := range dir {
		names = append(names, e.Name())
	}
	noDiff(t, names, []string{"0", "3", "7", "by-id"}, "names")
	equal(t, r.drv.Node(2).Address(), "0000:22:01.0", "address")
	if s := r.file("sys/class/tenstorrent/tenstorrent!0/device/uevent"); !strings.Contains(s, "PCI_SLOT_NAME=0000:41:00.0") {
		t.Errorf("node 0 is %q", s)
	}
}

// The window's target isn't checked.
func (r *regFile) setTelemetry(v map[chip.TelemetryTag]uint32) {
	p := r.arch.Params()
	class, _ := p.WindowClassOf(p.BAR.KernelWindow)
	bar, off, _ := p.WindowOffset(p.BAR.KernelWindow)
	put := func(addr uint64, v uint32) { r.words[[2]uint64{uint64(bar), off + addr&(class.Size-1)}] = uint64(v) }
	const table, values = 0x10001000, 0x10002000
	put(p.ARC.ResetUnit+uint64(p.ARC.TelemetryTable), table)
	put(p.ARC.ResetUnit+uint64(p.ARC.TelemetryValues), values)
	put(p.ARC.PointerBase+table+4, uint32(len(v)))
	i := uint64(0)
	for tag, value := range v {
		put(p.ARC.PointerBase+table+8+4*i, uint32(tag)|uint32(i)<<16)
		put(p.ARC.PointerBase+values+4*i, value)
		i++
	}
}

func TestTelemetryAttributes(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		r := newRig(t, a)
		r.fn.setTelemetry(map[chip.TelemetryTag]uint32{chip.TagAICLK: 1350, chip.TagBoardIDHigh: 0x43<<4 | 0x100000,
			chip.TagBoardIDLow: 0xBEEF, chip.TagASICTemperature: 45<<16 | 0x8000, chip.TagPower: 120, chip.TagCurrent: 75, chip.TagVCore: 801,
			chip.TagFirmwareBundle: 0x13010200})
		class, pci := "sys/class/tenstorrent/tenstorrent!0/", "sys/bus/pci/devices/0000:01:00.0/"
		for name, w := range map[string]string{
			class + "tt_aiclk": "1350", class + "tt_serial": "001004300000BEEF", class + "tt_card_type": "p100a",
			class + "tt_fw_bundle_ver": "19.1.2.0", pci + "hwmon/hwmon3/temp1_input": "45500",
			pci + "hwmon/hwmon3/power1_input": "120000000", pci + "hwmon/hwmon3/curr1_input": "75000",
			pci + "hwmon/hwmon3/in0_input": "801", pci + "iommu_group/type": "DMA-FQ", pci + "numa_node": "-1",
		} {
			equal(t, r.file(name), w, "%s", name)
		}
		fails(t, second(fs.ReadFile(r.drv.FS(), class+"tt_heartbeat")), fs.ErrNotExist, "an attribute without a tag")
		by := r.open(0)
		if res, err := reset(by, kabi.ResetUser); res != 0 || err != nil {
			t.Fatal(res, err)
		}
		fails(t, second(fs.ReadFile(r.drv.FS(), class+"tt_aiclk")), syscall.ENODATA, "in the reset window")
		if config := r.file(pci + "config"); config[4]&commandParity == 0 {
			t.Error("no reset marker in the configuration space")
		}
	})
}

func TestSensorFiles(t *testing.T) {
	tags := map[chip.TelemetryTag]uint32{9: 900<<16 | 700, 24: 0x00067123, 27: 0x01020304, 29: 0x02030405, 41: 2400, 55: 160, 56: 75,
		58: 0x03010200, 60: 2, 64: 150}
	class, hwmon := "sys/class/tenstorrent/tenstorrent!0/", "sys/bus/pci/devices/0000:01:00.0/hwmon/hwmon3/"
	const none = "none"
	for name, w := range map[string][2]string{ // Wormhole, Blackhole
		hwmon + "temp1_max": {"75000", "75000"}, hwmon + "in0_max": {"900", "900"}, hwmon + "curr1_max": {"160000", "160000"},
		hwmon + "power1_max": {"150000000", "150000000"}, hwmon + "fan1_input": {none, "2400"}, hwmon + "temp1_input": {none, none},
		hwmon + "temp1_label": {"asic1_temp", "asic_temp"}, hwmon + "in0_label": {"vcore1", "vcore"},
		hwmon + "curr1_label": {"current1", "current"}, hwmon + "power1_label": {"power1", "power"}, hwmon + "fan1_label": {none, "fan_rpm"},
		class + "tt_eth_fw_ver": {"6.7.291", none}, class + "tt_m3bl_fw_ver": {"1.2.3.4", none}, class + "tt_arc_fw_ver": {"2.3.4.5", none},
		class + "tt_ttflash_ver": {"3.1.2.0", none}, class + "tt_therm_trip_count": {none, "2"},
	} {
		for i, a := range archs {
			r := newRig(t, a)
			r.fn.setTelemetry(tags)
			if _, err := fs.Stat(r.drv.FS(), name); w[i] == none {
				expect.Fails(t, err, fs.ErrNotExist, "%v: %s is there", a, name)
			} else if got := r.file(name); got != w[i] {
				t.Errorf("%v: %s: %q, want %q", a, name, got, w[i])
			}
		}
	}
}

func TestAssertion49_AllOnesAndSlowReads(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	n := r.drv.Node(0)
	f := r.open(0)
	m := mmap(t, "map", f, 0, int(pageSize()), nil)
	m.IO.Store(8, 4, 5)
	end, err := n.Inject(AllOnes)
	want(t, "inject", err, nil)
	m.IO.Store(8, 4, 6)
	p := []byte{1, 2}
	m.IO.Read(0, p)
	if a, b := m.IO.Load(8, 4), m.IO.Load(8, 8); a != 1<<32-1 || b != 1<<64-1 || p[0] != 0xFF || p[1] != 0xFF {
		t.Errorf("%#x %#x %x", a, b, p)
	}
	end()
	equal(t, m.IO.Load(8, 4), 5, "afterwards")
	const delay = 20 * time.Millisecond // a hung NoC takes 700
	end, err = n.Inject(SlowReads + "=20ms")
	want(t, "inject", err, nil)
	start := time.Now()
	if v := m.IO.Load(8, 4); v != 5 || time.Since(start) < delay {
		t.Errorf("%d after %v", v, time.Since(start))
	}
	end()
	for _, f := range []Fault{"hiccups", SlowReads, SlowPins + "=soon", SmallBAR4 + "=little"} {
		if _, err := n.Inject(f); err == nil {
			t.Errorf("%q is a fault", f)
		}
	}
}

func TestAssertion50_MapPeerBAR(t *testing.T) {
	second := newRegFile(chip.Blackhole)
	r := newRig(t, chip.Blackhole, func(c *Config) { c.Functions = append(c.Functions, second) })
	wh := newRig(t, chip.Wormhole)
	f := r.open(0)
	peer := mustOpen(t, r.drv.Node(1))
	fd := func(f seam.File) uint32 {
		t.Helper()
		n, err := f.(interface{ Descriptor() (int, error) }).Descriptor()
		want(t, "descriptor", err, nil)
		return uint32(n)
	}
	dir, err := os.Open(".")
	want(t, "open", err, nil)
	defer dir.Close()
	mapBAR := func(in kabi.MapPeerBarIn) (uint64, error) {
		a := kabi.MapPeerBar{In: in}
		err := f.Ioctl(kabi.IoctlMapPeerBar, kabi.Bytes(&a))
		return a.Out.DMAAddress, err
	}
	ok := kabi.MapPeerBarIn{PeerFD: fd(peer), PeerBarIndex: 0, PeerBarOffset: 0x1000, PeerBarLength: 0x2000}
	for _, tt := range []struct {
		name string
		edit func(*kabi.MapPeerBarIn)
		want error
	}{
		{"as it should be", func(*kabi.MapPeerBarIn) {}, nil},
		{"the same device", func(a *kabi.MapPeerBarIn) { a.PeerFD = fd(f) }, syscall.EINVAL},
		{"another chip", func(a *kabi.MapPeerBarIn) { a.PeerFD = fd(wh.open(0)) }, syscall.EINVAL},
		{"no descriptor", func(a *kabi.MapPeerBarIn) { a.PeerFD = 1<<32 - 1 }, syscall.EBADF},
		{"another kind of file", func(a *kabi.MapPeerBarIn) { a.PeerFD = uint32(dir.Fd()) }, syscall.EINVAL},
		{"no length", func(a *kabi.MapPeerBarIn) { a.PeerBarLength = 0 }, syscall.EINVAL},
		{"resource 17", func(a *kabi.MapPeerBarIn) { a.PeerBarIndex = 17 }, syscall.EINVAL},
		{"a BAR that isn't", func(a *kabi.MapPeerBarIn) { a.PeerBarIndex = 1 }, syscall.EINVAL},
		{"beyond the BAR", func(a *kabi.MapPeerBarIn) { a.PeerBarOffset = 512<<20 - 0x1000 }, syscall.EINVAL},
		{"flags", func(a *kabi.MapPeerBarIn) { a.Flags = 1 }, syscall.EINVAL},
	} {
		in := ok
		tt.edit(&in)
		_, err := mapBAR(in)
		want(t, tt.name, err, tt.want)
	}
	bus, err := mapBAR(ok)
	want(t, "map", err, nil)
	var p [4]byte
	want(t, "the card reaches its peer", r.fn.dma.ReadHost(bus, p[:]), nil)
	want(t, "close", f.Close(), nil)
	var de *DMAError
	if err := r.fn.dma.ReadHost(bus, p[:]); !errors.As(err, &de) {
		t.Errorf("after the close: %v", err)
	}
}

func TestKilledProcessLeavesNothing(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	p := r.drv.NewProcess(99, "victim")
	f := mustOpen(t, p.Node(0))
	c := kabi.SetNOCCleanup{Argsz: 32, Enabled: 1, X: 1, Y: 2, Addr: 0x40, Data: 0xD1E}
	want(t, "cleanup", f.Ioctl(kabi.IoctlSetNOCCleanup, kabi.Bytes(&c)), nil)
	w, _ := allocate(f, 2<<20)
	m, err := f.Mmap(w.MmapOffsetUC, 2<<20)
	want(t, "map", err, nil)
	equal(t, value(lock(f, kabi.LockAcquire, 4))(t), 1, "the lock")
	mem := pages(t, 1, unix.MAP_PRIVATE)
	pin := kabi.PinPagesExtended{In: kabi.PinPagesIn{OutputSizeBytes: 16, Flags: kabi.PinPagesNOCDMA,
		VirtualAddress: address(mem), Size: pageSize()}}
	want(t, "pin", f.Ioctl(kabi.IoctlPinPages, kabi.Bytes(&pin)), nil)
	me := r.open(0)
	waiter := wait(r, me, 4)

	want(t, "kill", p.Kill(), nil)
	want(t, "the waiter", soon(t, "waking", waiter), nil)
	cleanups := 0
	for _, s := range r.fn.stores {
		if s[3] == 0xD1E {
			cleanups++
		}
	}
	equal(t, cleanups, 1, "cleanup writes")
	if x, _ := allocate(me, 2<<20); x.ID != w.ID {
		t.Errorf("window %d, want the victim's", x.ID)
	}
	expect.Error(t, r.fn.dma.ReadHost(pin.Out.PhysicalAddress, make([]byte, 4))) // the pin is gone
	if !raisesFault(func() { m.IO.Load(0, 4) }) {
		t.Error("the mapping is alive")
	}
	equal(t, r.drv.Node(0).OpenFiles(), 1, "open files")
	want(t, "the dead don't act", f.Ioctl(kabi.IoctlGetDriverInfo, make([]byte, 16)), syscall.EBADF)
	_, err = p.Node(0).Open(0)
	want(t, "nor open", err, syscall.ESRCH)
}

func TestOrderOfTheEndOfAProcess(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	p := r.drv.NewProcess(99, "victim")
	var files []seam.File
	for i := range 6 {
		f := mustOpen(t, p.Node(0))
		files = append(files, f)
		c := kabi.SetNOCCleanup{Argsz: 32, Enabled: 1, X: 1, Y: 2, Addr: 0x40, Data: 0xD0 + uint64(i)}
		want(t, "cleanup", f.Ioctl(kabi.IoctlSetNOCCleanup, kabi.Bytes(&c)), nil)
	}
	last := func(f seam.File) error { return f.(interface{ ReleaseLast() error }).ReleaseLast() }
	want(t, "last", last(files[4]), nil)
	w, _ := allocate(files[1], 2<<20)
	_, err := files[1].Mmap(w.MmapOffsetUC, 2<<20)
	want(t, "map", err, nil)
	want(t, "close what is mapped", files[1].Close(), nil)
	want(t, "close", files[2].Close(), nil)
	want(t, "last after close", last(files[2]), syscall.EBADF)
	// The lowest free descriptor is used again: 1.
	c := kabi.SetNOCCleanup{Argsz: 32, Enabled: 1, X: 1, Y: 2, Addr: 0x40, Data: 0xDA}
	want(t, "cleanup", mustOpen(t, p.Node(0)).Ioctl(kabi.IoctlSetNOCCleanup, kabi.Bytes(&c)), nil)
	want(t, "kill", p.Kill(), nil)
	var got []uint64
	for _, s := range r.fn.stores {
		if s[3]&^0xF == 0xD0 {
			got = append(got, s[3])
		}
	}
	noDiff(t, got, []uint64{0xD2, 0xD1, 0xD5, 0xD3, 0xDA, 0xD0, 0xD4}, "result")
}

type vanishing struct {
	*regFile
	read   func()
	closed atomic.Bool
	late   atomic.Bool // it was read after it was closed
}

var errVanishing = errors.New("it doesn't end well")

func (v *vanishing) ConfigRead(off uint32) uint32 {
	if v.read != nil && off == 0 {
		v.read()
	}
	if v.closed.Load() {
		v.late.Store(true)
	}
	return v.regFile.ConfigRead(off)
}

func (v *vanishing) Close() error {
	v.closed.Store(true)
	return errVanishing
}

func TestCardsThatVanish(t *testing.T) {
	v := &vanishing{regFile: newRegFile(chip.Blackhole)}
	r := newRig(t, chip.Blackhole, func(c *Config) {
		c.Functions = nil
		c.Start = func() (Function, error) { return v, nil }
	})
	p := r.drv.NewProcess(77, "tool")
	mustOpen(t, p.Node(0))
	killed := make(chan error, 1)
	v.read = func() {
		v.read = nil
		go func() { killed <- p.Kill() }()
		for end := time.Now().Add(20 * time.Millisecond); !v.closed.Load() && time.Now().Before(end); { // if it is wrong it happens at once
			time.Sleep(time.Millisecond)
		}
	}
	r.file("sys/bus/pci/devices/0000:01:00.0/vendor")
	want(t, "kill", soon(t, "the end", killed), errVanishing)
	if v.late.Load() {
		t.Error("a closed card was read")
	}
	fails(t, second(fs.Stat(r.drv.FS(), "proc/77")), fs.ErrNotExist, "the process is there after its end")
}

func TestFaultsOfTheMoment(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	n := r.drv.Node(0)
	f := r.open(0)
	end, err := n.Inject(BusyWindows)
	want(t, "inject", err, nil)
	_, err = allocate(f, 2<<20)
	want(t, "all windows taken", err, syscall.ENOMEM)
	_, err = allocate(f, 3<<20)
	want(t, "no such window", err, syscall.EINVAL)
	end()
	_, err = allocate(f, 2<<20)
	want(t, "afterwards", err, nil)

	end, err = n.Inject(Resetting)
	want(t, "inject", err, nil)
	mmap(t, "while somebody resets", f, 0, int(pageSize()), syscall.ENODEV)
	want(t, "the file is good", info(f), nil)
	end()
	mmap(t, "afterwards", f, 0, int(pageSize()), nil)

	end, err = n.Inject(StuckReset)
	want(t, "inject", err, nil)
	equal(t, value(reset(f, kabi.ResetPCIeLink))(t), 1, "a reset that fails")
	end()
	end, err = n.Inject(SlowPins + "=5ms")
	want(t, "inject", err, nil)
	mem := pages(t, 1, unix.MAP_PRIVATE)
	pin := kabi.PinPages{In: kabi.PinPagesIn{OutputSizeBytes: 8, VirtualAddress: address(mem), Size: pageSize()}}
	start := time.Now()
	want(t, "a slow pin", f.Ioctl(kabi.IoctlPinPages, kabi.Bytes(&pin)), nil)
	if d := time.Since(start); d < 5*time.Millisecond {
		t.Errorf("took %v", d)
	}
	end()
}

func TestUnplugByName(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	n := r.drv.Node(0)
	fails(t, second(n.Inject(Unplug+"=now")), ErrConfig, "no duration")
	end, err := n.Inject(Unplug + "=1h")
	want(t, "inject", err, nil)
	f := r.open(0) // from here on an hour
	end()
	want(t, "taken back in time", info(f), nil)
	w, _ := allocate(f, 1<<20)
	m := mmap(t, "map", f, w.MmapOffsetUC, 1<<20, nil)
	_, err = n.Inject(Unplug + "=1ms")
	want(t, "inject", err, nil)
	for info(f) == nil {
		time.Sleep(time.Millisecond)
	}
	want(t, "afterwards", info(f), syscall.ENODEV)
	if !raisesFault(func() { m.IO.Load(0, 4) }) {
		t.Error("a mapping of a card that is gone answers")
	}
	_, err = n.Open(0)
	want(t, "open again", err, syscall.ENODEV)
}

func TestSecondProcessByName(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	n := r.drv.Node(0)
	end, err := n.Inject(SecondProcess)
	want(t, "inject", err, nil)
	pid := strconv.Itoa(secondPID)
	equal(t, strings.TrimSpace(r.file("proc/driver/tenstorrent/0/pids")), pid, "pids")
	equal(t, strings.TrimSpace(r.file("proc/"+pid+"/comm")), secondName, "name")
	_, err = n.Open(syscall.O_EXCL | syscall.O_NONBLOCK)
	want(t, "alone", err, syscall.EAGAIN)
	f, err := n.Open(0)
	want(t, "beside it", err, nil)
	want(t, "close", f.Close(), nil)
	alone := make(chan error, 1)
	go func() {
		f, err := n.Open(syscall.O_EXCL)
		if err == nil {
			err = f.Close()
		}
		alone <- err
	}()
	end()
	want(t, "alone afterwards", <-alone, nil)
	equal(t, strings.TrimSpace(r.file("proc/driver/tenstorrent/0/pids")), "", "pids after the close")
}

type answering struct{ *regFile }

func (answering) Message(m [8]uint32) [8]uint32 { m[0], m[1] = 0, m[1]+1; return m }

func TestNewerRequests(t *testing.T) {
	r := newRig(t, chip.Blackhole, version(2, 11))
	f := r.open(0)
	acc := func(req uint32, a kabi.NOCAccess) (uint64, error) {
		if a.Argsz == 0 {
			a.Argsz = 32
		}
		err := f.Ioctl(req, kabi.Bytes(&a))
		return a.Value, err
	}
	_, err := acc(kabi.IoctlNOCWrite, kabi.NOCAccess{X: 1, Y: 2, Width: 4, Addr: 0x104, Value: 77})
	want(t, "write", err, nil)
	v, err := acc(kabi.IoctlNOCRead, kabi.NOCAccess{X: 1, Y: 2, Width: 4, Addr: 0x104})
	equal(t, v, 77, "v")
	expect.Fails(t, err, nil, "error")
	for name, a := range map[string]kabi.NOCAccess{
		"argsz": {Argsz: 31, Width: 4}, "flags": {Flags: 1, Width: 4}, "width 3": {Width: 3}, "width 0": {},
		"third network": {NOC: 2, Width: 4}, "misaligned": {Width: 4, Addr: 2}, "x 64": {X: 64, Width: 4},
		"reserved": {Width: 4, Reserved0: [2]uint8{0, 1}},
	} {
		_, err := acc(kabi.IoctlNOCRead, a)
		want(t, name, err, syscall.EINVAL)
	}
	m := kabi.SMCMessage{Argsz: 48, Flags: kabi.SMCPost}
	want(t, "firmware without a queue", f.Ioctl(kabi.IoctlSMCMessage, kabi.Bytes(&m)), syscall.EOPNOTSUPP)

	q := newRig(t, chip.Blackhole, version(2, 11), func(c *Config) {
		c.Functions = []Function{answering{newRegFile(chip.Blackhole)}}
	})
	f = q.open(0)
	smc := func(flags uint32) ([8]uint32, error) {
		m := kabi.SMCMessage{Argsz: 48, Flags: flags, Message: [8]uint32{0x90, 41}}
		err := f.Ioctl(kabi.IoctlSMCMessage, kabi.Bytes(&m))
		return m.Message, err
	}
	step := func(what string, flags uint32, w error) [8]uint32 {
		t.Helper()
		m, err := smc(flags)
		want(t, what, err, w)
		return m
	}
	step("poll without a message", kabi.SMCPoll, syscall.ESRCH)
	step("post", kabi.SMCPost, nil)
	step("post again", kabi.SMCPost, syscall.EBUSY)
	step("poll too early", kabi.SMCPoll, syscall.EAGAIN)
	equal(t, step("poll", kabi.SMCPoll, nil), [8]uint32{0, 42}, "answer")
	step("abandon nothing", kabi.SMCAbandon, nil)
	step("post", kabi.SMCPost, nil)
	step("abandon", kabi.SMCAbandon, nil)
	step("nothing is left", kabi.SMCPoll, syscall.ESRCH)
	step("two operations", kabi.SMCPost|kabi.SMCPoll, syscall.EINVAL)
}

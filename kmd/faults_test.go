package kmd_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/drivertest"
)

func TestMmapWaitsForResets(t *testing.T) {
	m := blackhole(t)
	tries := 0
	node := changed{Node: m.node(), mmap: func(f seam.File, off uint64, n int) (seam.Mapping, error) {
		if tries++; tries < 4 {
			return seam.Mapping{}, syscall.ENODEV
		}
		return f.Mmap(off, n)
	}}
	d := value(kmd.Open(t.Context(), target{node}))(t)
	defer d.Close()
	if err := d.Write32(worker(chip.Blackhole), 0, 1); err != nil || tries != 4 {
		t.Errorf("%v after %d tries", err, tries)
	}
	end := value(m.drv.Node(0).Inject(driver.Resetting))(t)
	if _, err := m.dev.OpenWindow(2<<20, kmd.Uncached); !errors.Is(err, kmd.ErrResetting) || errors.Is(err, kmd.ErrDeviceLost) {
		t.Errorf("a reset that goes on: %v", err)
	}
	end()
	if err := m.dev.Write32(worker(chip.Blackhole), 0, 1); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestUnfinishedResets(t *testing.T) {
	m := blackhole(t)
	c := target{m.node()}
	value(kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetUser, Force: true}))(t)
	d := value(kmd.Open(t.Context(), c))(t)
	defer d.Close()
	_, err1 := d.OpenWindow(2<<20, kmd.Uncached)
	_, err2 := d.PinHostMemory(1)
	for name, err := range map[string]error{"window": err1, "pin": err2, "power": d.SetPower(0), "cleanup": d.SetNOCCleanup(nil)} {
		if !errors.Is(err, kmd.ErrResetting) || !strings.Contains(err.Error(), "mode post") {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, m.fn.Reset())
	value(kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetPost}))(t)
	if err := d.Write32(worker(chip.Blackhole), 0, 1); err != nil {
		t.Errorf("after the end: %v", err)
	}
	fails(t, m.dev.Alive(), kmd.ErrDeviceLost, "the user that had it open before")
}

func TestHotUnplugUnderUse(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		drv, _ := machineOf(t, driver.Config{Arch: a}, 1)
		d := value(kmd.Open(t.Context(), target{drv.Node(0)}))(t)
		w := value(d.OpenWindow(2<<20, kmd.Uncached))(t)
		h := value(d.PinHostMemory(4096))(t)
		must(t, drv.Unplug(0))
		fails(t, d.Guard(func() error { w.Load32(0); return nil }), kmd.ErrDeviceLost, "load")
		h.Bytes()[0] = 1 // it is this process's
		if err := errors.Join(w.Close(), h.Close(), d.Close()); err != nil {
			t.Errorf("closing what is gone: %v", err)
		}
		equal(t, drv.Node(0).OpenFiles(), 0, "open files")
	})
}

func FuzzTelemetry(f *testing.F) {
	f.Add(uint32(0x10001000), uint32(0x10002000), uint32(0x10000), uint32(2), []byte{14, 0, 0, 0, 1, 0, 1, 0})
	f.Add(uint32(0x1007FFFC), uint32(0x10080000), uint32(0), uint32(1<<31), []byte{})
	f.Add(uint32(0x10000000), uint32(0x10000000), uint32(0), uint32(1000), []byte{255, 255, 255, 255})
	f.Add(uint32(0), uint32(0xFFFFFFFF), uint32(0x20000), uint32(0), []byte{})
	f.Fuzz(func(t *testing.T, table, values, version, count uint32, tags []byte) {
		fn := drivertest.New(chip.Blackhole)
		fn.Telemetry = nil
		drv := value(driver.New(driver.Config{Arch: chip.Blackhole, Functions: []driver.Function{fn}}))(t)
		defer drv.Close()
		d := value(kmd.Open(t.Context(), target{drv.Node(0)}))(t)
		defer d.Close()
		arc := d.Params().ARC
		word := func(addr uint64, v uint32) {
			fn.SetTile(8, 0, addr, []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
		}
		word(arc.ResetUnit+uint64(arc.TelemetryTable), table)
		word(arc.ResetUnit+uint64(arc.TelemetryValues), values)
		word(arc.PointerBase+uint64(table), version)
		word(arc.PointerBase+uint64(table)+4, count)
		fn.SetTile(8, 0, arc.PointerBase+uint64(table)+8, tags)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if v, err := d.Telemetry(ctx); (err == nil) != (v != nil) {
			t.Errorf("%v, %v", v, err)
		}
		if _, err := d.Harvesting(ctx); err != nil && !errors.Is(err, kmd.ErrFirmware) && !errors.Is(err, kmd.ErrDeviceLost) {
			t.Errorf("%v", err)
		}
	})
}

//go:build linux

package kmd_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
)

func TestPinMemoryOfTheCaller(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		mem := value(unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(t)
		for name, part := range map[string][]byte{"part of a page": mem[:100], "nothing": mem[:0:0],
			"from inside a page": mem[16 : 16+8192]} {
			fails(t, second(m.dev.Pin(kmd.PinConfig{Memory: part})), kmd.ErrMisaligned, "%s", name)
		}
		h := value(m.dev.Pin(kmd.PinConfig{Memory: mem, Chunk: 16 << 10}))(t)
		if err := m.fn.WriteHost(h.NOCAddr()+20_000, []byte("from the device")); err != nil ||
			string(mem[20_000:20_015]) != "from the device" {
			t.Errorf("%q, %v", mem[20_000:20_015], err)
		}
		must(t, h.Close())
		mem[0] = 1 // it is still mapped
		must(t, unix.Munmap(mem))
	})
}

func TestRepin(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		h := value(m.dev.Pin(kmd.PinConfig{Size: 64 << 10, Chunk: 32 << 10}))(t)
		reached := func() string {
			got := make([]byte, 4)
			if err := m.fn.ReadHost(h.NOCAddr()+40_000, got); err != nil {
				return err.Error()
			}
			return string(got)
		}
		copy(h.Bytes()[40_000:], "kept")
		if err := h.Repin(); err != nil || reached() != "kept" { // of a device that isn't lost
			t.Errorf("%v, the device sees %q", err, reached())
		}
		value(kmd.Reset(t.Context(), cardOf(m, 0), kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true}))(t)
		fails(t, h.Repin(), kmd.ErrDeviceLost, "while the device is lost")
		must(t, m.dev.Recover(t.Context()))
		if err := h.Repin(); err != nil || reached() != "kept" {
			t.Errorf("%v, the device sees %q", err, reached())
		}
		value(kmd.Reset(t.Context(), cardOf(m, 0), kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true}))(t)
		if err := m.dev.Alive(); !errors.Is(err, kmd.ErrDeviceLost) {
			t.Fatalf("after a reset: %v", err)
		}
		fails(t, h.Repin(), kmd.ErrDeviceLost, "of a device that is known to be lost")
		must(t, m.dev.Recover(t.Context()))
		if err := h.Repin(); err != nil || reached() != "kept" || h.Pins() != 2 {
			t.Errorf("%v, the device sees %q in %d pins, want 2", err, reached(), h.Pins())
		}
		must(t, h.Close())
		fails(t, h.Repin(), kmd.ErrClosed, "closed")
	})
}

package emu

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// The flash is read through Wormhole's SPI controller as luwen does: it is erased, is never busy,
// and ignores writes.
func TestSPIController(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	const base, reset = 0x1FF70000, 0x1FF30000
	st := func(addr, v uint64) { r.dev.BARStore(0, addr, 4, v) }
	ld := func(addr uint64) uint64 { return r.dev.BARLoad(0, addr, 4) }
	for _, pad := range []uint64{0xF8, 0x240, 0x24C, 0x250} {
		st(reset+pad, 0x7E)
		if v := ld(reset + pad); v != 0x7E {
			t.Errorf("register %#x of the reset unit has %#x after a store of 0x7e", pad, v)
		}
	}
	transfer := func(frames uint64, command ...uint64) (got []uint64) {
		st(base+0x08, 0)
		st(base+0x00, 3<<8|7<<16)
		st(base+0x04, frames-1)
		st(base+0x08, 1)
		st(base+0x10, 0)
		for _, b := range command {
			st(base+0x60, b)
		}
		st(base+0x10, 1)
		for ld(base+0x28)&(1<<3) != 0 {
			got = append(got, ld(base+0x60))
		}
		if sr := ld(base + 0x28); sr&1 != 0 || sr&(1<<2) == 0 {
			t.Errorf("status %#x of the controller after a transfer: want it written and not busy", sr)
		}
		st(base+0x10, 0)
		return got
	}
	if got := transfer(3, 0x03, 0, 0x40, 0); len(got) != 3 || got[0] != 0xFF || got[2] != 0xFF {
		t.Errorf("a read of three bytes returns %#x", got)
	}
	if got := transfer(1, 0x05); len(got) != 1 || got[0] != 0 {
		t.Errorf("the flash's status is %#x", got)
	}
	if got := transfer(1, 0x02, 0, 0x40, 0, 7); len(got) != 0 {
		t.Errorf("a write returns %#x", got)
	}
	if got := transfer(1, 0x03, 0, 0x40, 0); len(got) != 1 || got[0] != 0xFF {
		t.Errorf("%#x after a write, which the flash ignores", got)
	}
	r.healthy()
}

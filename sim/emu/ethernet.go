package emu

import "github.com/reprise-tt/reprise/chip"

// ethRegs is the state of an Ethernet tile beyond L1 and NIUs. Its processors and links are not emulated: every link is
// down, and start-up code finds that out at once.
type ethRegs struct {
	resetPC [2]uint32 // Blackhole
}

// hold is the state of the processors' reset register at power-up.
func (e *ethRegs) hold(t *tile) {
	t.debug.softReset = 0x1800
	if t.chip.arch == chip.Wormhole {
		t.debug.softReset = 0x800
	}
}

// init fills in what base firmware leaves in L1 after it found no partner (tt-umd topology_discovery_*.cpp, ttsim
// src/tile.cpp).
func (e *ethRegs) init(t *tile) {
	if t.chip.arch == chip.Wormhole {
		t.l1[0x210/4] = 6<<16 | 14<<12 // firmware 6.14.0
		t.l1[0x1104/4] = 3             // not connected
		return
	}
	t.l1[0x7CFBC/4] = 1<<16 | 6<<8 // firmware 1.6.0
	t.l1[0x7CC00/4] = 0xC0DEA000   // initialised
	t.l1[0x7CC04/4] = 2            // port down
}

func (t *tile) ethLoad(o origin, addr uint32) (uint32, slowResult) {
	if t.chip.arch == chip.Blackhole {
		switch addr {
		case ethCtrlBase:
			return t.eth.resetPC[0], slowDone
		case ethCtrlBase + 8:
			return t.eth.resetPC[1], slowDone
		}
	}
	return 0, t.unmapped(o, "load from", addr)
}

func (t *tile) ethStore(o origin, addr, v uint32) slowResult {
	bh := t.chip.arch == chip.Blackhole
	if addr == debugBase+regSoftReset {
		held, ignored := uint32(0x800), uint32(0x80047000)
		if bh {
			held, ignored = 0x1800, 0x80046000
		}
		v &^= ignored
		switch {
		case v&^held != 0:
			t.chip.refuse(o, UnimplementedFunctionality, "ethernet", uint64(addr), "SOFT_RESET_0 = %#x: only bits %#x are emulated", v, held)
			return slowHalt
		case !bh && v == 0, bh && v&0x800 == 0 && t.eth.resetPC[0] != 0, bh && v&0x1000 == 0 && t.eth.resetPC[1] != 0:
			t.chip.refuse(o, UnimplementedFunctionality, "ethernet", uint64(addr), "the processors of Ethernet tiles are not emulated")
			return slowHalt
		}
		t.debug.softReset = v
		return slowDone
	}
	if bh {
		switch addr {
		case ethCtrlBase:
			t.eth.resetPC[0] = v
			return slowDone
		case ethCtrlBase + 8:
			t.eth.resetPC[1] = v
			return slowDone
		}
	}
	return t.unmapped(o, "store to", addr)
}

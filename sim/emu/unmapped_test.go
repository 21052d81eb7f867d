package emu

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// What tt-umd's tests do at undocumented addresses has the effect that they expect, and is refused
// by option.
func TestUnmappedAddresses(t *testing.T) {
	for _, strict := range []bool{false, true} {
		refused := func(r *rig, what string) {
			t.Helper()
			if fault := r.dev.Fault(); strict != (fault != nil) {
				t.Errorf("%v: %s, strict %v: fault %v", r.arch, what, strict, fault)
			}
		}

		r := newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
		v := r.worker(1, 2)
		r.run(v, onB().stw(0x40000, 5).stw(0xFFB12284, 7).stw(0x40000, 9).halt())
		refused(r, "store beyond the last debug register")
		if got := r.ld(v, 0x40000); !strict && got != 9 {
			t.Errorf("the program stopped at the store: %d", got)
		}

		r = newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
		start, end := r.worker(0, 0), r.worker(13, 9)
		for i, w := range []uint32{0, uint32(end.X)<<11 | uint32(end.Y)<<17 | uint32(start.X)<<23 | uint32(start.Y)<<29,
			uint32(start.Y)>>3 | 1<<5} {
			r.dev.BARStore(0, 0x1FC00000+12*7+uint64(4*i), 4, uint64(w))
		}
		r.dev.BARLoad(0, 7<<21+0x30000, 4)
		refused(r, "load through a multicast window")

		r = newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
		r.dev.BARStore(0, r.point(chip.XY{X: 15, Y: 15}, 0x1000), 4, 1)
		refused(r, "store to coordinates of no tile")

		for bar, words := range map[int][]uint32{0: {0, 0, 1 << 9}, 4: {0, 1 << 30, 0}} {
			r = newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
			v, window, off := r.worker(1, 2), 7, uint64(7<<21)
			words[1] |= (uint32(v.X) | uint32(v.Y)<<6) << 11
			if bar == 4 {
				window, off, words[1] = 202, 0, 1<<30|uint32(v.X)|uint32(v.Y)<<6
			}
			for i, w := range words {
				r.dev.BARStore(0, 0x1FC00000+12*uint64(window)+uint64(4*i), 4, uint64(w))
			}
			r.dev.BARStore(bar, off+0x30000, 4, 5)
			refused(r, "window with a static virtual channel")
			if got := r.ld(v, 0x30000); !strict && got != 5 {
				t.Errorf("a store through such a window left %d", got)
			}
		}

		r = newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
		scratch := uint64(r.params.BAR.ARCAPB) + 0x30068
		r.dev.BARStore(0, scratch, 4, 0x1234)
		got := r.dev.BARLoad(0, scratch, 4)
		if r.topo.PCIe(chip.NOC0).X != 11 {
			refused(r, "ARC registers in BAR 0 of a card that doesn't show them")
			if !strict && got != 0 {
				t.Errorf("an ARC register that BAR 0 doesn't show is %#x", got)
			}
		} else if inNOC := r.ld(r.topo.ARC(), 0x80030068); got != 0x1234 || inNOC != 0x1234 {
			t.Errorf("an ARC register is %#x in BAR 0 and %#x for the NoC after a store of 0x1234", got, inNOC)
		}

		r = newRig(t, Config{Arch: chip.Wormhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
		v = r.worker(1, 2)
		p := binary.LittleEndian.AppendUint64(pattern(32, 3), 11)
		r.write(v, 0x40000000, p)
		if strict {
			refused(r, "store to 0x40000000 of a worker")
			continue
		}
		for _, addr := range []uint64{0, 0x40000000} {
			if got := r.read(v, addr, len(p)); !bytes.Equal(got, p) {
				t.Errorf("%#x of a worker after a store to its alias: %x, want %x", addr, got, p)
			}
		}
		r.healthy()
	}

	// Only workers get what a host multicasts, wherever the rectangle ends.
	for _, arch := range arches {
		for _, whole := range []bool{false, true} {
			if whole && arch == chip.Blackhole {
				continue // a rectangle of raw coordinates can't be written down
			}
			for _, strict := range []bool{false, true} {
				r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
				dram, eth := r.topo.DRAMBanks()[0].Endpoint[0], r.ethernet()
				start, end := dram, dram
				if whole {
					start, end = chip.XY{}, chip.XY{X: uint8(r.params.GridWidth - 1), Y: uint8(r.params.GridHeight - 1)}
				}
				const at = 0x30000
				for _, xy := range []chip.XY{dram, eth, r.worker(0, 0)} {
					r.st(xy, at, 1)
				}
				off := uint64(7<<21 + at)
				if arch == chip.Wormhole {
					off = 7<<20 + at
					r.dev.BARStore(0, 0x1FC00000+8*7, 8, uint64(end.X)<<16|uint64(end.Y)<<22|uint64(start.X)<<28|uint64(start.Y)<<34|1<<41)
				} else {
					for i, w := range []uint32{0, uint32(end.X)<<11 | uint32(end.Y)<<17 | uint32(start.X)<<23 | uint32(start.Y)<<29,
						uint32(start.Y)>>3 | 1<<5} {
						r.dev.BARStore(0, 0x1FC00000+12*7+uint64(4*i), 4, uint64(w))
					}
				}
				r.dev.BARStore(0, off, 4, 2)
				if fault := r.dev.Fault(); strict != (fault != nil) {
					t.Errorf("%v: a multicast to %v-%v, strict %v: fault %v", arch, start, end, strict, fault)
				}
				if strict {
					continue
				}
				worker := uint32(1)
				if whole {
					worker = 2
				}
				for name, c := range map[string]struct {
					xy   chip.XY
					want uint32
				}{"DRAM": {dram, 1}, "Ethernet": {eth, 1}, "a worker": {r.worker(0, 0), worker}} {
					equal(t, r.ld(c.xy, at), c.want, "%v: %s after a multicast to %v-%v", arch, name, start, end)
				}
			}
		}
	}

	// Elsewhere nothing changes.
	for _, c := range []struct {
		arch chip.Arch
		do   func(*rig, chip.XY)
	}{
		{chip.Blackhole, func(r *rig, v chip.XY) { r.ld(v, 0xFFB12284) }},
		{chip.Blackhole, func(r *rig, v chip.XY) { r.st(v, 0xFFB12100, 1) }},
		{chip.Wormhole, func(r *rig, v chip.XY) { r.run(v, onB().stw(0xFFB12284, 7).halt()) }},
		{chip.Wormhole, func(r *rig, v chip.XY) { r.run(v, onB().stw(0x40000000, 7).halt()) }},
		{chip.Wormhole, func(r *rig, v chip.XY) { r.write(v, 0x40000000+1464<<10-4, make([]byte, 8)) }},
		{chip.Blackhole, func(r *rig, v chip.XY) { r.write(v, 0x40000000, make([]byte, 8)) }},
	} {
		r := syncRig(t, c.arch)
		c.do(r, r.worker(1, 2))
		if r.c.Fault() == nil {
			t.Errorf("%v: an access to an unmapped address was accepted", c.arch)
		}
	}
}

// A host that clears L1 under processors loses them, not the chip, as tt-umd's tests do
// (TestRiscProgram).
func TestHostOverwritesCode(t *testing.T) {
	stops := func(r *rig, what string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); r.dev.Fault() == nil; time.Sleep(50 * time.Microsecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%v: %s: the chip goes on", r.arch, what)
			}
		}
	}
	for _, arch := range arches {
		for name, code := range map[string]func(a *asm) *asm{
			"waits":  func(a *asm) *asm { return a.halt() },
			"counts": func(a *asm) *asm { return a.li(a0, 0x20000).label("l").addi(a1, a1, 1).sw(a1, a0, 0).j("l") },
		} {
			for with, bytes := range map[string][]byte{"zeros": make([]byte, 0x40000), "ones": bytes.Repeat([]byte{0xFF}, 0x40000)} {
				for _, strict := range []bool{false, true} {
					r := newRig(t, Config{Arch: arch, Seed: 1, RefuseUnmapped: strict})
					v := r.worker(1, 2)
					r.run(v, code(newAsm(0x20).stw(0x30000, 7)))
					r.eventually("the program runs", func() bool { return r.ld(v, 0x30000) == 7 })
					r.write(v, 0, bytes)
					if strict {
						stops(r, "a processor that "+name+", "+with)
						continue
					}
					r.eventually("the processor stops", func() bool {
						cores := r.c.Cores()
						return len(cores) == 1 && strings.HasPrefix(cores[0].State, "lost")
					})
					r.st(v, 0xFFB121B0, 0x47800)
					r.run(v, newAsm(0x20).stw(0x30000, 9).halt())
					r.eventually("it runs after a reset", func() bool { return r.ld(v, 0x30000) == 9 })

					// Its own faults afterwards are refused as before.
					r.st(v, 0xFFB121B0, 0x47800)
					r.run(v, newAsm(0x800).stw(0x30000, 8))
					stops(r, "a program that runs through its end")
				}
			}
		}
	}
}

package emu

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// What tt-umd's tests do at addresses that no document mentions has the effect that they expect, and is refused by option.
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
		r.run(v, newAsm(0x1000).stw(0x40000, 5).stw(0xFFB12284, 7).stw(0x40000, 9).halt())
		refused(r, "store beyond the last debug register")
		if got := r.ld(v, 0x40000); !strict && got != 9 {
			t.Errorf("the program stopped at the store: %d", got)
		}

		r = newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, RefuseUnmapped: strict})
		start, end := r.worker(0, 0), r.worker(13, 9)
		for i, w := range []uint32{0, uint32(end.X)<<11 | uint32(end.Y)<<17 | uint32(start.X)<<23 | uint32(start.Y)<<29, uint32(start.Y)>>3 | 1<<5} {
			r.dev.BARStore(0, 0x1FC00000+12*7+uint64(4*i), 4, uint64(w))
		}
		r.dev.BARLoad(0, 7<<21+0x30000, 4)
		refused(r, "load through a multicast window")

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

	// Elsewhere nothing changes.
	for _, c := range []struct {
		arch chip.Arch
		do   func(*rig, chip.XY)
	}{
		{chip.Blackhole, func(r *rig, v chip.XY) { r.ld(v, 0xFFB12284) }},
		{chip.Blackhole, func(r *rig, v chip.XY) { r.st(v, 0xFFB12100, 1) }},
		{chip.Wormhole, func(r *rig, v chip.XY) { r.run(v, newAsm(0x1000).stw(0xFFB12284, 7).halt()) }},
		{chip.Wormhole, func(r *rig, v chip.XY) { r.run(v, newAsm(0x1000).stw(0x40000000, 7).halt()) }},
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

package emu

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// ring makes every worker wait for its semaphore, then add one to the next worker's, laps times
// around.
func ring(r *rig, laps uint32) {
	const sem = 0x30000
	var order []chip.XY
	for w := range r.topo.Workers() {
		order = append(order, r.worker(w.X, w.Y))
	}
	for i, v := range order {
		next := order[(i+1)%len(order)]
		a := onB().li(s0, 0).li(s1, laps).li(a0, sem).
			label("lap").addi(s0, s0, 1).
			label("poll")
		if r.arch == chip.Blackhole {
			a.fence()
		}
		a.lw(a1, a0, 0).bltu(a1, s0, "poll").
			request(r.arch, nocRequest{noc: chip.NOC(i % 2), buf: 3, targ: sem, targXY: next, ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked,
				len: 0x107C, dat: 1}).
			waitCounter(chip.NOC(i%2), cntAtomicResp, s0, "acks").
			bne(s0, s1, "lap").
			li(a2, 0x30040).sw(s0, a2, 0).halt()
		r.run(v, a)
	}
	r.st(order[0], sem, 1)
	r.eventually("ring", func() bool {
		for _, v := range order {
			if r.ld(v, 0x30040) != laps {
				return false
			}
		}
		return true
	})
	equal(r.t, r.ld(order[0], sem), laps+1, "the first semaphore")
}

func TestRing(t *testing.T) {
	for _, arch := range arches {
		for _, cfg := range []Config{
			{Arch: arch, Synchronous: true, Seed: 1},
			{Arch: arch, Synchronous: true, Seed: 2, Delay: 50},
			{Arch: arch, Seed: 3},
			{Arch: arch, Synchronous: true, Seed: 6, Parallel: true},
			{Arch: arch, Seed: 7, Parallel: true},
			{Arch: arch, Seed: 4, Delay: 9},
			{Arch: arch, Seed: 5, Harvesting: chip.Harvesting{Tensix: 5}},
		} {
			ring(newRig(t, cfg), 3)
		}
	}
}

// draws lets workers draw numbers from one counter, and returns what each made of its numbers.
func draws(r *rig) (all []uint32) {
	const (
		counter, drawn, result = 0x30080, 0x30090, 0x300A0
		start                  = 0x300B0
		sum, number            = 18, 15 // s2, a5
	)
	owner := r.worker(3, 3)
	inc := func(from, to chip.XY, addr, ret uint32) nocRequest {
		return nocRequest{buf: 3, targ: uint64(addr), targXY: to, ret: uint64(ret), retXY: from, ctrl: ctrlAtomic | ctrlMarked,
			len: 0x107C, dat: 1}
	}
	first := onB() // lets the others begin
	for i := range 6 {
		v := r.worker(i, 5)
		first.request(r.arch, inc(owner, v, start, drawn))
		a := onB().li(s0, 0).li(s1, 30).li(a3, drawn).li(a2, start).
			label("wait").lw(number, a2, 0).beq(number, x0, "wait").
			label("draw").li(a4, 400).
			label("compute").addi(a4, a4, -1).bne(a4, x0, "compute").
			addi(s0, s0, 1).
			request(r.arch, inc(v, owner, counter, drawn)).
			waitCounter(0, cntAtomicResp, s0, "acks").
			lw(number, a3, 0).emit(itype(0x13, 1, sum, sum, 1)).emit(rtype(0x33, 0, 0, sum, sum, number)). // slli, add
			bne(s0, s1, "draw").
			li(a2, result).sw(sum, a2, 0).halt()
		r.run(v, a)
	}
	r.run(owner, first.halt())
	for i := range 6 {
		all = append(all, r.ld(r.worker(i, 5), result))
	}
	return all
}

func TestDeterminism(t *testing.T) {
	for _, arch := range arches {
		for _, delay := range []int{0, 40} {
			run := func(seed uint64) (string, uint64) {
				r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: seed, Delay: delay})
				ring(r, 2)
				one, two := r.worker(0, 0), r.worker(5, 6)
				r.st(one, 0xFFB121B0, 0x47800)
				r.st(two, 0xFFB121B0, 0x47800)
				r.run(two, ping(arch, two, one, 10, false))
				r.run(one, ping(arch, one, two, 10, true))
				r.healthy()
				return r.dump() + fmt.Sprint(draws(newRig(t, Config{Arch: arch, Synchronous: true, Seed: seed, Delay: delay}))), r.c.clock
			}
			first, clock := run(11)
			if clock == 0 || !strings.Contains(first, "parked") {
				t.Fatalf("nothing ran: %s", first)
			}
			again, _ := run(11)
			noDiff(t, again, first, "%v delay %d: the same seed ran differently", arch, delay)
			if other, _ := run(12); other == first {
				t.Errorf("%v delay %d: another seed ran the same", arch, delay)
			}
		}
	}
}

func TestDump(t *testing.T) {
	r := syncRig(t, chip.Blackhole)
	v := r.worker(3, 3)
	r.run(v, onB().li(a0, 0x40000).label("w").lw(a1, a0, 0).beq(a1, x0, "w").halt())
	dump := r.dump()
	for _, want := range []string{"tile " + r.raw(v).String() + " (virtual " + v.String() + ") BRISC", "parked", "waits on L1 [0x40000]"} {
		if !strings.Contains(dump, want) {
			t.Errorf("no %q in dump: %s", want, dump)
		}
	}
	if n := strings.Count(dump, "\n"); n != 2 {
		t.Errorf("%d lines, want one for the chip and one for the core:\n%s", n, dump)
	}
}

func TestRefuseUnwritten(t *testing.T) {
	tests := []struct {
		name string
		do   func(r *rig, v chip.XY)
		ok   bool
	}{
		{"load of written memory", program(func(a *asm) { a.stw(0x40000, 5).lw(a1, t0, 0) }), true},
		{"load of memory the host wrote", func(r *rig, v chip.XY) {
			r.write(v, 0x40000, pattern(64, 1))
			r.run(v, onB().li(a0, 0x40000).lw(a1, a0, 60).halt())
		}, true},
		{"load", program(func(a *asm) { a.li(a0, 0x40000).lw(a1, a0, 0) }), false},
		{"load of a byte of another word", program(func(a *asm) { a.stw(0x40000, 5).lbu(a1, t0, 4) }), false},
		{"instruction fetch", program(func(a *asm) { a.li(a0, 0x50000).emit(itype(0x67, 0, x0, a0, 0)) }), false},
		{"NoC write from it", func(r *rig, v chip.XY) {
			r.issue(v, nocRequest{targ: 0x40000, targXY: v, ret: 0x50000, retXY: r.worker(1, 1), ctrl: ctrlWriteNP, len: 16})
		}, false},
		{"NoC read of it", func(r *rig, v chip.XY) {
			r.issue(v, nocRequest{targ: 0x40000, targXY: r.worker(1, 1), ret: 0x50000, retXY: v, ctrl: ctrlRead, len: 16})
		}, false},
		{"atomic", func(r *rig, v chip.XY) {
			r.issue(v, nocRequest{targ: 0x40000, targXY: r.worker(1, 1), ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked,
				len: 0x107C, dat: 1})
		}, false},
		{"host load", func(r *rig, v chip.XY) { r.ld(v, 0x40000) }, false},
	}
	for _, arch := range arches {
		for _, tt := range tests {
			r := newRig(t, Config{Arch: arch, Synchronous: true, RefuseUnwritten: true})
			tt.do(r, r.worker(0, 0))
			if tt.ok {
				r.healthy()
			} else {
				r.refused(unpredictable)
			}
		}
	}
}

// A block that the host reads has garbage, by seed, where nothing was written.
func TestUnwrittenBlocks(t *testing.T) {
	for _, arch := range arches {
		var blocks [2][]byte
		for seed := range blocks {
			r := newRig(t, Config{Arch: arch, Synchronous: true, RefuseUnwritten: true, Seed: uint64(seed)})
			v := r.worker(0, 0)
			r.write(v, 0x40010, pattern(16, 1))
			blocks[seed] = r.read(v, 0x40000, 64)
			noDiff(t, blocks[seed][16:32], pattern(16, 1), "%v: what was written", arch)
			r.healthy()
		}
		for _, at := range []int{0, 4, 12, 32, 60} {
			if a, b := blocks[0][at:at+4], blocks[1][at:at+4]; bytes.Equal(a, b) || bytes.Equal(a, make([]byte, 4)) {
				t.Errorf("%v: word %d is %x with one seed and %x with another", arch, at/4, a, b)
			}
		}
	}
}

func TestDataCache(t *testing.T) {
	poll := func(fence bool) *asm {
		a := onB().li(a0, 0x40000).sw(x0, a0, 0).li(a2, 0x1234).sh(a2, a0, 6).lw(a3, a0, 4).label("w")
		if fence {
			a.fence()
		}
		return a.lw(a1, a0, 0).beq(a1, x0, "w").sw(a3, a0, 64).halt()
	}
	for _, tt := range []struct {
		cache, fence, wakes bool
		arch                chip.Arch
	}{{false, false, true, chip.Blackhole}, {true, false, false, chip.Blackhole}, {true, true, true, chip.Blackhole},
		{true, false, true, chip.Wormhole}} {
		r := newRig(t, Config{Arch: tt.arch, Synchronous: true, DataCache: tt.cache})
		v := r.worker(0, 0)
		r.run(v, poll(tt.fence))
		before := r.c.Retired(r.raw(v), chip.BRISC)
		r.st(v, 0x40000, 1)
		equal(t, r.ld(v, 0x40040) == 0x12340000, tt.wakes, "cache %v fence %v on %v: saw the store", tt.cache, tt.fence, tt.arch)
		if n := r.c.Retired(r.raw(v), chip.BRISC); n > before+minSlice {
			t.Errorf("cache %v fence %v: %d instructions after the store", tt.cache, tt.fence, n-before)
		}
		r.healthy()
	}
	ring(newRig(t, Config{Arch: chip.Blackhole, Seed: 3, DataCache: true, Delay: 20}), 2)
}

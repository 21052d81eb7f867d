package emu

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

var seeds = flag.Uint64("seeds", 10, "how many seeds TestPingPong tries")

func (a *asm) request(arch chip.Arch, q nocRequest) *asm {
	for _, s := range q.stores(arch) {
		a.stw(s[0], s[1])
	}
	return a
}

// waitCounter polls an NIU counter until it equals the register want.
func (a *asm) waitCounter(noc chip.NOC, i uint32, want int, label string) *asm {
	a.li(t0, niu0Base+0x10000*uint32(noc)+0x200+4*i)
	return a.label(label).lw(t1, t0, 0).bne(t1, want, label)
}

// ping sends n messages to the far core and waits for each answer: data by a write, then a
// semaphore by an atomic.
func ping(arch chip.Arch, me, far chip.XY, n uint32, first bool) *asm {
	const data, sem, scratch = 0x30000, 0x30100, 0x30200
	a := onB().li(s0, 0).li(s1, n).li(gp, scratch).li(tp, 0)
	if first {
		a.j("send")
	}
	a.label("wait").addi(tp, tp, 1).li(a0, sem)
	a.label("poll")
	if arch == chip.Blackhole {
		a.fence()
	}
	a.lw(a1, a0, 0).bne(a1, tp, "poll")
	a.li(a2, data).lw(a3, a2, 0).bne(a3, tp, "bad")
	if first {
		a.beq(s0, s1, "done")
	}
	a.label("send").addi(s0, s0, 1).sw(s0, gp, 0)
	a.request(arch, nocRequest{noc: 0, buf: 0, targ: scratch, targXY: me, ret: data, retXY: far, ctrl: ctrlWriteNP | ctrlStaticVC | 1<<13,
		len: 4})
	a.waitCounter(0, cntWriteAck, s0, "acks")
	a.request(arch, nocRequest{noc: 0, buf: 3, targ: sem, targXY: far, ret: 4, retXY: me, ctrl: ctrlAtomic | ctrlMarked,
		len: 0x107C, dat: 1})
	a.waitCounter(0, cntAtomicResp, s0, "atomics")
	if first {
		a.j("wait")
	} else {
		a.bne(s0, s1, "wait")
	}
	a.label("done").li(a0, 0x30300).li(a1, 0x600D).sw(a1, a0, 0).halt()
	return a.label("bad").li(a0, 0x30300).sw(a3, a0, 0).halt()
}

func TestPingPong(t *testing.T) {
	for _, arch := range arches {
		for _, delay := range []int{0, 1, 7, 500} {
			for _, synchronous := range []bool{true, false} {
				for seed := range *seeds {
					name := fmt.Sprintf("%v/delay %d/synchronous %v/seed %d", arch, delay, synchronous, seed)
					func() {
						r := newRig(t, Config{Arch: arch, Synchronous: synchronous, Seed: seed, Delay: delay})
						defer r.c.Close()
						one, two := r.worker(0, 0), r.worker(5, 6)
						r.run(two, ping(arch, two, one, 20, false))
						r.run(one, ping(arch, one, two, 20, true))
						r.eventually(name, func() bool { return r.ld(one, 0x30300) == 0x600D && r.ld(two, 0x30300) == 0x600D })
					}()
				}
			}
		}
	}
}

// A waiting core retires almost nothing, and wakes on every kind of event that it can wait for.
func TestParkAndWake(t *testing.T) {
	stream := func(r *rig, off chip.StreamReg) uint32 { return r.c.params.Stream.Reg(50, off) }
	tests := []struct {
		name string
		wait func(r *rig, a *asm) // polls until what it reads changes
		wake func(r *rig, v chip.XY)
	}{
		{"L1 by host", func(r *rig, a *asm) { a.li(a0, 0x40000) }, func(r *rig, v chip.XY) { r.st(v, 0x40000, 1) }},
		{"L1 by host, bulk across lines", func(r *rig, a *asm) { a.li(a0, 0x40080) },
			func(r *rig, v chip.XY) { r.write(v, 0x40000, pattern(512, 1)) }},
		{"L1 by host, one byte", func(r *rig, a *asm) { a.li(a0, 0x40000) },
			func(r *rig, v chip.XY) { r.c.BARStore(0, r.point(v, 0x40003), 1, 1) }},
		{"L1 by NoC write", func(r *rig, a *asm) { a.li(a0, 0x40000) }, func(r *rig, v chip.XY) {
			far := r.worker(4, 4)
			r.st(far, 0x50000, 1)
			r.issue(far, nocRequest{targ: 0x50000, targXY: far, ret: 0x40000, retXY: v, ctrl: ctrlWriteNP, len: 4})
		}},
		{"L1 by multicast", func(r *rig, a *asm) { a.li(a0, 0x40000) }, func(r *rig, v chip.XY) {
			far, end := r.worker(4, 4), r.worker(5, 5)
			r.st(far, 0x50000, 1)
			start := v
			r.issue(far, nocRequest{targ: 0x50000, targXY: far, ret: 0x40000, start: &start, retXY: end, ctrl: ctrlMulticast, len: 4})
		}},
		{"L1 by NoC read into it", func(r *rig, a *asm) { a.li(a0, 0x40000) }, func(r *rig, v chip.XY) {
			far := r.worker(4, 4)
			r.st(far, 0x50000, 1)
			r.issue(v, nocRequest{targ: 0x50000, targXY: far, ret: 0x40000, retXY: v, ctrl: ctrlRead, len: 4})
		}},
		{"L1 by atomic", func(r *rig, a *asm) { a.li(a0, 0x40000) }, func(r *rig, v chip.XY) {
			far := r.worker(4, 4)
			r.issue(far, nocRequest{targ: 0x40000, targXY: v, ret: 4, retXY: far, ctrl: ctrlAtomic | ctrlMarked, len: 0x107C, dat: 1})
		}},
		{"L1 by the return of an atomic", func(r *rig, a *asm) { a.li(a0, 0x40000) }, func(r *rig, v chip.XY) {
			far := r.worker(4, 4)
			r.st(far, 0x50000, 1)
			r.issue(v, nocRequest{targ: 0x50000, targXY: far, ret: 0x40000, retXY: v, ctrl: ctrlAtomic | ctrlMarked, len: 0x107C, dat: 1})
		}},
		{"NIU counter", func(r *rig, a *asm) { a.li(a0, niu1Base+0x200+4*cntReadResp) }, func(r *rig, v chip.XY) {
			r.issue(v, nocRequest{noc: 1, targ: 0x50000, targXY: r.worker(4, 4), ret: 0x50000, retXY: v, ctrl: ctrlRead, len: 4})
		}},
		{"NIU counter at the target", func(r *rig, a *asm) { a.li(a0, niu0Base+0x200+4*cntSlaveAccepted) }, func(r *rig, v chip.XY) {
			far := r.worker(4, 4)
			r.issue(far, nocRequest{targ: 0x50000, targXY: far, ret: 0x50000, retXY: v, ctrl: ctrlWriteNP, len: 4})
		}},
		{"NIU register", func(r *rig, a *asm) { a.li(a0, niu0Base+0x100) }, func(r *rig, v chip.XY) { r.st(v, niu0Base+0x100, 1<<14) }},
		{"stream counter", func(r *rig, a *asm) { a.li(a0, stream(r, chip.SpaceAvailable)) },
			func(r *rig, v chip.XY) { r.st(v, uint64(stream(r, chip.SpaceAvailableUpdate)), 1<<6) }},
		{"stream register", func(r *rig, a *asm) { a.li(a0, stream(r, chip.RemoteDestBufStart)) },
			func(r *rig, v chip.XY) { r.st(v, uint64(stream(r, chip.RemoteDestBufStart)), 9) }},
		{"soft reset register", func(r *rig, a *asm) { a.li(a0, 0xFFB121B0) }, func(r *rig, v chip.XY) { r.st(v, 0xFFB121B0, 0x46000) }},
	}
	for _, arch := range arches {
		for _, tt := range tests {
			for _, idiom := range []string{"plain", "store of the same value", "call"} {
				r := syncRig(t, arch)
				v := r.worker(0, 0)
				k := r.c.tileAt(r.raw(v))
				r.write(v, 0x6000, onT0().halt().bytes())
				a := onB().li(sp, localBase+0x800)
				tt.wait(r, a)
				a.lw(a1, a0, 0).li(a3, 0x40100).li(a4, 0x57).label("poll")
				switch idiom {
				case "store of the same value":
					a.sw(a4, a3, 0).sw(a4, sp, -4)
				case "call":
					a.emit(jtype(ra, 8)).j("on").sw(ra, sp, -8).lw(t0, sp, -8).emit(itype(0x67, 0, x0, ra, 0)).label("on")
				}
				a.lw(a2, a0, 0).beq(a1, a2, "poll").sw(a2, a3, 4).halt()
				r.run(v, a)
				before := r.c.Retired(k.xy, chip.BRISC)
				for range 50 { // accesses that touch nothing that it reads
					if tt.name != "NIU counter at the target" { // which counts stores of the host
						r.st(v, 0x60000, 5)
					}
					r.ld(r.worker(1, 1), 0x40000)
				}
				equal(t, r.c.Retired(k.xy, chip.BRISC)-before, 0,
					"%v %s, %s: instructions retired while nothing changed", arch, tt.name, idiom)
				if before > 600 {
					t.Errorf("%v %s, %s: retired %d instructions before it was seen to wait", arch, tt.name, idiom, before)
				}
				tt.wake(r, v)
				r.healthy()
				if got := r.ld(v, 0x40104); got == 0 {
					t.Errorf("%v %s, %s: did not wake", arch, tt.name, idiom)
				}
			}
		}
	}
}

func TestWallClockLoopEnds(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(0, 0)
		a := onB().li(a0, 0xFFB121F0).lw(a1, a0, 0).li(a2, 60000).
			label("wait").lw(a3, a0, 0).sub(a4, a3, a1).bltu(a4, a2, "wait").
			stw(0x40000, 1).halt()
		r.run(v, a)
		r.healthy()
		equal(t, r.ld(v, 0x40000), 1, "%v: what the end of the delay stores", arch)
	}
}

// BRISC starts the other four, which pass a token around through mailboxes and L1.
func TestSubordinates(t *testing.T) {
	for _, arch := range arches {
		for _, synchronous := range []bool{true, false} {
			r := newRig(t, Config{Arch: arch, Synchronous: synchronous, Seed: 3})
			v := r.worker(1, 1)
			pcs := map[chip.Processor]uint32{chip.TRISC0: 0x8000, chip.TRISC1: 0x8400, chip.TRISC2: 0x8800, chip.NCRISC: 0x8C00}
			for p, pc := range pcs {
				a := newAsm(pc).li(sp, localBase)
				if p == chip.NCRISC { // no mailboxes: waits for TRISC2's word in L1
					a.li(a0, 0x40000).label("w").lw(a1, a0, 0).beq(a1, x0, "w").addi(a1, a1, 1).sw(a1, sp, 0).lw(a2, sp, 0).sw(a2,
						a0, 4).halt()
				} else {
					i := uint32(p - chip.TRISC0)
					a.li(a0, mailboxBase+0x1000*i).lw(a1, a0, 0).addi(a1, a1, 1) // from the core before it
					a.sw(a1, sp, 16).lw(a1, sp, 16)
					if p == chip.TRISC2 {
						a.li(a0, 0x40000).sw(a1, a0, 0)
					} else {
						a.li(a0, mailboxBase+0x1000*(i+2)).sw(a1, a0, 0)
					}
					a.halt()
				}
				r.write(v, uint64(pc), a.bytes())
			}
			b := onB()
			if arch == chip.Wormhole {
				for i, pc := range []uint32{pcs[chip.TRISC0], pcs[chip.TRISC1], pcs[chip.TRISC2], 7, pcs[chip.NCRISC], 1} {
					b.stw(configBase+4*uint32(158+i), pc)
				}
			} else {
				for i, pc := range []uint32{pcs[chip.TRISC0], pcs[chip.TRISC1], pcs[chip.TRISC2], 7, pcs[chip.NCRISC], 1} {
					b.stw(0xFFB12228+4*uint32(i), pc)
				}
			}
			b.stw(0xFFB121B0, 0).stw(mailboxBase+0x1000, 100).halt()
			r.run(v, b)
			r.eventually("token", func() bool { return r.ld(v, 0x40004) == 104 })
		}
	}
}

func TestIdleChipSleeps(t *testing.T) {
	r := newRig(t, Config{Arch: chip.Wormhole})
	v := r.worker(0, 0)
	r.run(v, onB().li(a0, 0x40000).label("w").lw(a1, a0, 0).beq(a1, x0, "w").halt())
	r.eventually("park", func() bool {
		r.c.acquire()
		defer r.c.release()
		return !r.c.busy()
	})
	before := r.c.Retired(r.raw(v), chip.BRISC)
	time.Sleep(20 * time.Millisecond)
	equal(t, r.c.Retired(r.raw(v), chip.BRISC)-before, 0, "instructions retired while idle")
	goroutines := runtime.NumGoroutine()
	must(t, r.c.Close())
	// The goroutine says that it is done just before it is gone.
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() >= goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines after Close, %d before", runtime.NumGoroutine(), goroutines)
		}
	}
	fails(t, r.c.Close(), nil, "closing again")
}

func counter(at uint32) *asm {
	return onB().li(a0, at).label("l").addi(a1, a1, 1).sw(a1, a0, 0).j("l")
}

// talker counts, and adds 0 to a stream each time.
func talker(a chip.Arch, at uint32) *asm {
	update := uint32(streamBase + 0x3088)
	if a == chip.Blackhole {
		update = streamBase + 0x3438
	}
	return onB().li(a0, at).li(a2, update).label("l").addi(a1, a1, 1).sw(a1, a0, 0).sw(x0, a2, 0).j("l")
}

func TestQuietProcessorsHaveFewTurns(t *testing.T) {
	for _, arch := range arches {
		for _, eases := range []bool{false, true} {
			r := newRig(t, Config{Arch: arch, Seed: 1, Synchronous: true, MaxRun: 1 << 22, EasesIdle: eases})
			quiet, lively := r.worker(1, 2), r.worker(3, 4)
			r.run(quiet, counter(0x20000))
			r.run(lively, talker(arch, 0x20000))
			before := r.c.Retired(r.raw(quiet), chip.BRISC)
			other := r.c.Retired(r.raw(lively), chip.BRISC)
			for range 4 {
				r.ld(lively, 0x20000) // lets the chip run
			}
			q, l := r.c.Retired(r.raw(quiet), chip.BRISC)-before, r.c.Retired(r.raw(lively), chip.BRISC)-other
			if few := q < l/8; few != eases || q == 0 {
				t.Errorf("%v, EasesIdle %t: the quiet processor executed %d instructions, the other one %d", arch, eases, q, l)
			}
			r.healthy()
		}
	}
}

func TestRestingChipAnswers(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Seed: 1, Paced: true, EasesIdle: true})
		v := r.worker(1, 2)
		r.run(v, counter(0x20000))
		r.eventually("the chip rests", func() bool {
			r.c.acquire()
			defer r.c.release()
			return !r.c.idle.since.IsZero() && time.Since(r.c.idle.since) > restAfter
		})
		first := r.ld(v, 0x20000)
		r.eventually("it counts", func() bool { return r.ld(v, 0x20000) > first })
		r.healthy()
	}
}

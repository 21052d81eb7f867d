package emu

import (
	"fmt"
	"testing"
)

// stamp makes code that stores the low half of the wall clock at address at of L1.
func (a *asm) stamp(at uint32) *asm {
	return a.li(t0, 0xFFB121F0).lw(t1, t0, 0).li(t0, at).sw(t1, t0, 0)
}

// clocked makes a rig for each architecture, some seeds, and requests with and without delays.
func clocked(t *testing.T, f func(r *rig)) {
	for _, arch := range arches {
		for seed := range uint64(10) {
			for _, delay := range []int{0, 300} {
				t.Run(fmt.Sprintf("%v/seed %d/delay %d", arch, seed, delay), func(t *testing.T) {
					r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: seed, Delay: delay})
					f(r)
					r.healthy()
				})
			}
		}
	}
}

// The host, which reads the wall clock of a tile behind one of its cores, sees a later time, and a core behind the host too.
func TestWallClockForTheHost(t *testing.T) {
	const clock, stamps = 0xFFB121F0, 0x40000
	clocked(t, func(r *rig) {
		v := r.worker(0, 0)
		a := newAsm(0x1000)
		for i := range uint32(8) { // behind the first one each is behind a word of the host
			if i > 0 {
				a.poll(r.arch, 0x50000+64*i, fmt.Sprint("host ", i))
			}
			a.spend(200, fmt.Sprint("work ", i)).stamp(stamps + 4*i)
		}
		r.run(v, a.halt())
		var last uint32
		for i := range uint32(8) {
			if at := r.ld(v, stamps+4*uint64(i)); at <= last {
				r.t.Errorf("core, time %d: %d behind the host's %d", i, at, last)
			} else {
				last = at
			}
			for range 2 {
				if at := r.ld(v, clock); at <= last {
					r.t.Errorf("host, time %d: %d behind %d", i, at, last)
				} else {
					last = at
				}
			}
			r.st(v, 0x50000+64*uint64(i+1), 1)
		}
	})
}

// Two cores of a tile that take turns see the clock go on, also where one runs twice in a round of the scheduler.
func TestWallClockOfATile(t *testing.T) {
	const turns, word, stamps = 16, 0x50000, 0x42000
	clocked(t, func(r *rig) {
		v := r.worker(1, 1)
		cores := [2]*asm{onB(), onT0()}
		for i := range uint32(turns) {
			a := cores[i%2]
			if i > 0 {
				a.poll(r.arch, word+64*i, fmt.Sprint("turn ", i))
			}
			// One is far into its slice at its turn, the other isn't.
			a.spend([]int{300, 1}[i%2], fmt.Sprint("work ", i)).stamp(stamps+4*i).stw(word+64*(i+1), 1)
		}
		r.together(v, cores[0].halt(), cores[1].halt())
		var last uint32
		for i := range uint32(turns) {
			if at := r.ld(v, stamps+4*uint64(i)); at <= last {
				r.t.Errorf("turn %d: time %d behind %d", i, at, last)
			} else {
				last = at
			}
		}
	})
}

package emu

import (
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// stamp stores the low half of the wall clock at address at of L1.
func (a *asm) stamp(at uint32) *asm {
	return a.li(t0, 0xFFB121F0).lw(t1, t0, 0).li(t0, at).sw(t1, t0, 0)
}

func clocked(t *testing.T, f func(r *rig)) {
	for _, arch := range arches {
		for seed := range uint64(10) {
			for _, delay := range []int{0, 300} {
				t.Run(fmt.Sprintf("%v/seed %d/delay %d", arch, seed, delay), func(t *testing.T) {
					r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: seed, Delay: delay,
						MaxRun: 20000}) // some poll over a NoC, and never rest
					f(r)
					r.healthy()
				})
			}
		}
	}
}

func TestWallClockForTheHost(t *testing.T) {
	const clock, stamps = 0xFFB121F0, 0x40000
	clocked(t, func(r *rig) {
		v := r.worker(0, 0)
		a := onB()
		for i := range uint32(8) { // after the first one each comes after a word of the host
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

// Two cores that take turns see the clock go on, also where one runs twice in a round.
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

// Whichever way a core learns of the other's turn.
func TestWallClockAcrossTiles(t *testing.T) {
	const turns, word, stamps, mine, out = 12, 0x50000, 0x42000, 0x40000, 0x40400
	write := func(me, to chip.XY, at uint64) nocRequest {
		return nocRequest{targ: out, targXY: me, ret: at, retXY: to, ctrl: ctrlWriteNP | staticVC1, len: 4}
	}
	inL1 := func(r *rig, a *asm, _ chip.XY, i uint32) { a.poll(r.arch, word+64*i, fmt.Sprint("turn ", i)) }
	for how, f := range map[string]struct {
		wait func(r *rig, a *asm, me chip.XY, i uint32)
		pass func(r *rig, a *asm, me, next chip.XY, i uint32)
	}{
		"write": {inL1, func(r *rig, a *asm, me, next chip.XY, i uint32) {
			a.stw(out, 1).commit(out).request(r.arch, write(me, next, word+64*uint64(i)))
		}},
		"atomic": {inL1, func(r *rig, a *asm, me, next chip.XY, i uint32) {
			a.request(r.arch, r.increment(me, next, word+64*uint64(i)))
		}},
		"inline write to a register": {
			func(r *rig, a *asm, _ chip.XY, i uint32) {
				a.li(s0, i).until(r.stream(false), s0, fmt.Sprint("turn ", i))
			},
			func(r *rig, a *asm, me, next chip.XY, i uint32) {
				a.request(r.arch, nocRequest{buf: 2, targ: uint64(r.stream(false)), targXY: next, retXY: me,
					ctrl: ctrlInline | ctrlWrite | ctrlMarked | staticVC1, len: 15, dat: i})
			}},
		"read of L1": {
			func(r *rig, a *asm, me chip.XY, i uint32) {
				// Where the tile before keeps the word.
				a.fetch(r, nocRequest{buf: 1, targ: word + 64*uint64(i), targXY: turnTiles(r)[(i-1)%3], ret: mine, retXY: me,
					ctrl: ctrlRead | staticVC1, len: 4}, fmt.Sprint("turn ", i))
			},
			func(_ *rig, a *asm, _, _ chip.XY, i uint32) { a.stw(word+64*i, 1) }},
		"DRAM": {
			func(r *rig, a *asm, me chip.XY, i uint32) {
				a.fetch(r, nocRequest{buf: 1, targ: word + 64*uint64(i), targXY: r.topo.DRAMBanks()[0].Endpoint[chip.NOC0], ret: mine, retXY: me,
					ctrl: ctrlRead | staticVC1, len: 4}, fmt.Sprint("turn ", i))
			},
			func(r *rig, a *asm, me, _ chip.XY, i uint32) {
				a.stw(out, 1).commit(out).request(r.arch, write(me, r.topo.DRAMBanks()[0].Endpoint[chip.NOC0], word+64*uint64(i)))
			}},
	} {
		t.Run(how, func(t *testing.T) {
			clocked(t, func(r *rig) {
				tiles := turnTiles(r)
				programs := [3]*asm{onB().li(s1, 0), onB().li(s1, 0), onB().li(s1, 0)}
				for i := range uint32(turns) {
					a, me, next := programs[i%3], tiles[i%3], tiles[(i+1)%3]
					if i > 0 {
						f.wait(r, a, me, i)
					}
					a.spend([]int{400, 1, 30}[i%3], fmt.Sprint("work ", i)).stamp(stamps + 4*i)
					f.pass(r, a, me, next, i+1)
				}
				for k := 2; k >= 0; k-- { // that of the first turn last
					r.run(tiles[k], programs[k].halt())
				}
				r.eventually("the last turn", func() bool { return r.ld(tiles[(turns-1)%3], stamps+4*(turns-1)) != 0 })
				var last uint32
				for i := range uint32(turns) {
					if at := r.ld(tiles[i%3], stamps+4*uint64(i)); at <= last {
						r.t.Errorf("turn %d: time %d behind %d", i, at, last)
					} else {
						last = at
					}
				}
			})
		})
	}
}

func turnTiles(r *rig) [3]chip.XY { return [3]chip.XY{r.worker(0, 0), r.worker(3, 2), r.worker(1, 4)} }

// fetch reads a word until it isn't 0. The register s1 counts reads.
func (a *asm) fetch(r *rig, q nocRequest, label string) *asm {
	a.label(label).stw(uint32(q.ret), 0).commit(uint32(q.ret)).request(r.arch, q).addi(s1, s1, 1)
	a.waitCounter(0, cntReadResp, s1, label+", response")
	if r.arch == chip.Blackhole {
		a.fence()
	}
	return a.li(a0, uint32(q.ret)).lw(a1, a0, 0).beq(a1, x0, label)
}

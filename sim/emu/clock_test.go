package emu

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

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

// Between two loads of a host, a processor that counts has counted.
func TestPaced(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Seed: 1, Paced: true})
		v := r.worker(1, 2)
		r.run(v, counter(0x20000))
		off := r.point(v, 0x20000)
		for last := uint64(0); last < 1<<20; {
			n := r.dev.BARLoad(0, off, 4)
			if n == last {
				t.Fatalf("%v: two loads found %d", arch, n)
			}
			last = n
		}
		r.healthy()
	}
}

func TestPacedRemote(t *testing.T) {
	_, rigs := row(t, 2, Config{Seed: 1, Paced: true})
	g, far := newGateway(rigs[0]), rigs[1]
	workers := []chip.XY{far.worker(0, 0), far.worker(1, 0), far.worker(2, 0), far.worker(3, 0)}
	for _, v := range workers {
		far.run(v, counter(0x20000))
	}
	for i := range 100 {
		v, first := workers[i%len(workers)], g.asks
		lo, hi := remoteAt(1, v, 0x20000)
		g.put(lo, hi, 4, remoteReadRequest)
		g.ask(lo, hi, 4, remoteReadRequest)
		g.eventually("answers", func() bool { return g.answers() == g.asks&7 })
		if found := g.answer(first); found == g.answer(first+1) {
			t.Fatalf("two loads from %v found %d", v, found)
		}
	}
	g.healthy()
	far.healthy()
}

// A host that loads in a loop from one chip must not keep the chip that it waits for from its turn.
func TestPacedOthers(t *testing.T) {
	word := make([]byte, 4)
	for _, u := range []struct {
		name string
		load func(r *rig, off uint64) uint32
	}{
		{"load", func(r *rig, off uint64) uint32 { return uint32(r.dev.BARLoad(0, off, 4)) }},
		{"read", func(r *rig, off uint64) uint32 {
			r.dev.BARRead(0, off, word)
			return binary.LittleEndian.Uint32(word)
		}},
	} {
		t.Run(u.name, func(t *testing.T) { testPacedOthers(t, u.load) })
	}
}

func testPacedOthers(t *testing.T, load func(r *rig, off uint64) uint32) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	runtime.LockOSThread() // as a host is that calls from C
	defer runtime.UnlockOSThread()
	const chips = 6
	_, rigs := row(t, chips, Config{Seed: 1, Paced: true})
	for _, r := range rigs[:chips-1] {
		r.run(r.worker(1, 1), counter(0x20000))
	}
	g, far := newGateway(rigs[0]), rigs[chips-1]
	lo, hi := remoteAt(chips-1, far.worker(0, 0), 0x20000)
	for n := uint32(1); n <= 50; n++ {
		g.ask(lo, hi, 4, remoteReadRequest)
		off := g.point(g.at, remoteResponses+remoteWrite)
		for begun := time.Now(); load(g.rig, off) != n&7; {
			if time.Since(begun) > 10*time.Second {
				t.Fatalf("answer %d has not come after 10 seconds", n)
			}
		}
	}
	g.healthy()
	far.healthy()
}

// A processor has noted what the host has heard of before the host's answer arrives (tt-metal
// fabric_erisc_router.cpp).
func TestPacedAnswer(t *testing.T) {
	for name, eases := range map[string]bool{"all have turns": false, "quiet ones have few": true} {
		t.Run(name, func(t *testing.T) { testPacedAnswer(t, eases) })
	}
}

func testPacedAnswer(t *testing.T, eases bool) {
	const heard, near, far, done = 0x20000, 0x20100, 0x20200, 0x20300
	cfg := Config{Arch: chip.Blackhole, Seed: 1, Paced: true, EasesIdle: eases}
	_, rigs := machineOf(t, []Config{cfg, cfg}, Link{0, 0, 1, 0})
	r := rigs[0]
	v := r.worker(0, 0)
	// Both count rounds in a1. Values are 2*round while a processor waits for its answer, and
	// 2*round+1 for the answer. s0 counts so that they aren't taken for waiting.
	first := onB().li(a0, heard).li(a2, near).li(a3, far).li(t1, done).label("next").
		addi(a1, a1, 2).sw(a1, a0, 0).sw(a1, a2, 0).addi(a4, a1, 1).
		label("answer").addi(s0, s0, 1).lw(a5, a2, 0).bne(a5, a4, "answer").sw(a4, a3, 0).
		label("done").addi(s0, s0, 1).lw(a5, t1, 0).bne(a5, a1, "done").j("next")
	second := onT0().li(a0, heard).li(a3, far).li(t1, done).label("next").
		addi(a1, a1, 2).addi(a4, a1, 1).
		label("heard").addi(s0, s0, 1).lw(a5, a0, 0).bne(a5, a1, "heard").sw(a1, a3, 0).
		label("answer").addi(s0, s0, 1).lw(a5, a3, 0).bne(a5, a4, "answer").sw(a1, t1, 0).j("next")
	for i := 1; i < 10; i++ { // so that a round has more slices than a load waits for
		filler := onB().label("l").addi(s0, s0, 1).j("l")
		if eases {
			filler = talker(chip.Blackhole, 0x20000) // beside which the two are quiet
		}
		r.run(r.worker(i, 1), filler)
	}
	r.together(v, first, second)
	status, end := r.point(v, near), uint64(0)
	end = status - near + done
	rounds := uint64(500)
	if eases { // each waits for the turn of a quiet processor
		rounds = 100
	}
	for n := uint64(2); n < 2*rounds; n += 2 {
		for r.c.BARLoad(0, status, 4) != n {
		}
		r.c.BARStore(0, status, 4, n+1)
		for begun := time.Now(); r.c.BARLoad(0, end, 4) != n; {
			if time.Since(begun) > 30*time.Second {
				t.Fatalf("round %d: the second processor waits for an answer that it has overwritten", n/2)
			}
		}
	}
	r.healthy()
}

// TT-NN's dispatcher counts on it: see together.
func TestTogether(t *testing.T) {
	const rounds, mark, order, out = 200, 0x20000, 0x20100, 0x20200
	for _, arch := range arches {
		for name, u := range map[string]struct{ wake, rest uint32 }{
			"started": {0x46000, 0x47000}, // what BRISC stores to the register of resets, with TRISC0 running or held
			"woken":   {0x46000, 0x46000},
		} {
			t.Run(arch.String()+"/"+name, func(t *testing.T) {
				r := newRig(t, Config{Arch: arch, Seed: 1, Paced: true})
				v := r.worker(0, 0)
				b := onB().li(s0, 1).li(s1, rounds).label("next").
					spend(20000, "earlier"). // so that its slices are long
					stw(0xFFB121B0, u.wake).li(t0, order).sw(s0, t0, 0).
					spend(300, "later").
					li(a0, mark).lw(a1, a0, 0).bne(a1, s0, "bad").
					stw(0xFFB121B0, u.rest).addi(s0, s0, 1).bne(s0, s1, "next").
					stw(out, 0x600D).halt().
					label("bad").li(a0, out).sw(s0, a0, 0).halt()
				first := onT0().label("again").li(a0, order).li(a1, mark).lw(a2, a1, 0).
					label("wait").lw(a3, a0, 0).beq(a3, a2, "wait").
					li(a4, 50).label("work").addi(a4, a4, -1).bne(a4, x0, "work").sw(a3, a1, 0).j("again")
				r.write(v, uint64(first.base), first.bytes())
				r.run(v, b)
				r.eventually("the end", func() bool { return r.ld(v, out) != 0 })
				equal(t, r.ld(v, out), 0x600D, "TRISC0 has executed 150 instructions when BRISC has executed 600")
				r.healthy()
			})
		}
	}
}

func (r *rig) state() string {
	r.t.Helper()
	r.healthy()
	var b strings.Builder
	for _, t := range r.c.tiles {
		for _, k := range t.cores {
			if k.state != inReset {
				fmt.Fprintf(&b, "%v %v %v %x\n", t.xy, k.proc, k.state, k.X[:32])
			}
		}
		sum := uint64(0)
		for _, w := range t.l1 {
			sum = sum*0x9E3779B97F4A7C15 + uint64(w)
		}
		fmt.Fprintf(&b, "%v L1 %#x\n", t.xy, sum)
	}
	return b.String()
}

// Results are as if a waiting core had been woken and had executed its loop.
func TestWaitsThatGoOn(t *testing.T) {
	const word = 0x40000
	// BRISC polls a byte, TRISC0 a word of the same line.
	wait := func(r *rig, v chip.XY) {
		b := onB().li(a0, word).label("w").lbu(a1, a0, 0).beq(a1, x0, "w").sw(a1, a0, 64).halt()
		s := onT0().li(a0, word).label("w").lw(a1, a0, 8).beq(a1, x0, "w").sw(a1, a0, 128).halt()
		r.load(v, b)
		r.write(v, 0x6000, s.bytes())
		r.st(v, 0xFFB121B0, 0x47800&^uint32(chip.BRISC.ResetBit()|chip.TRISC0.ResetBit()))
	}
	for _, tt := range []struct {
		name string
		do   func(r *rig, v chip.XY)
		// how many of the two go on waiting unexecuted
		known int
	}{
		{"a store beside both", func(r *rig, v chip.XY) { r.st(v, word+4, 7) }, 2},
		{"a store to another byte of the word", func(r *rig, v chip.XY) { r.st(v, word, 0xAB00) }, 2},
		{"a store of what is there", func(r *rig, v chip.XY) { r.st(v, word, 0) }, 2},
		{"the byte", func(r *rig, v chip.XY) { r.st(v, word, 0xAB01) }, 1},
		{"the word", func(r *rig, v chip.XY) { r.st(v, word+8, 3) }, 1},
		{"code of the other", func(r *rig, v chip.XY) { r.write(v, 0x6000, onT0().li(a0, 4).bytes()) }, 1},
		{"a loop that ends", func(r *rig, v chip.XY) {
			r.write(v, 0x1000, onB().li(a0, word).label("w").lbu(a1, a0, 0).bne(a0, x0, "out").label("out").sw(a0, a0, 64).halt().bytes())
		}, 1},
		{"a reset", func(r *rig, v chip.XY) {
			r.st(v, 0xFFB121B0, 0x47800)
			r.write(v, 0x1000, onB().li(a0, 5).halt().bytes())
			r.st(v, 0xFFB121B0, 0x47800&^uint32(chip.BRISC.ResetBit()))
		}, 0},
		{"a ring", func(r *rig, v chip.XY) {
			r.st(v, 0xFFB121B0, 0x47800)
			ring(r, 2)
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, arch := range arches {
				for _, delay := range []int{0, 30} {
					if delay != 0 && testing.Short() {
						continue
					}
					run := func(always bool) (string, int) {
						r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: 5, Delay: delay, alwaysLooks: always})
						v := r.worker(2, 1)
						wait(r, v)
						tt.do(r, v)
						known := 0
						for _, k := range r.c.tileAt(r.raw(v)).cores {
							if k.state == parked && k.wait.known && k.proc != chip.NCRISC {
								known++
							}
						}
						return r.state(), known
					}
					quick, known := run(false)
					slow, none := run(true)
					noDiff(t, quick, slow, "%v delay %d", arch, delay)
					if known < tt.known || none != 0 {
						t.Errorf("%v delay %d: %d waits known, want at least %d; %d when all are executed", arch, delay, known, tt.known, none)
					}
				}
			}
		})
	}
}

// Tiles may have other code at the same place, or the same code elsewhere.
func TestDecodedLines(t *testing.T) {
	const here, elsewhere = 0x1000, 0x1000 + decodedLines<<lineShift // the same place among the lines
	where := func(at, addend uint32) *asm {
		return newAsm(at).emit(0x17|a0<<7).addi(a0, a0, int32(addend)).li(a1, 0x40000).sw(a0, a1, 0).halt() // auipc a0, 0
	}
	for _, arch := range arches {
		r := syncRig(t, arch)
		for i, tt := range []struct{ at, addend uint32 }{{here, 0}, {here, 1}, {elsewhere, 0}, {here, 0}, {elsewhere, 1}} {
			v := r.worker(i, 0)
			r.run(v, where(tt.at, tt.addend))
			equal(t, r.ld(v, 0x40000), tt.at+tt.addend, "%v: code at %#x says", arch, tt.at)
		}
		r.healthy()
	}
}

// A core that waits for the same again does so without executing the loop.
func TestWaitsAgain(t *testing.T) {
	const (
		word, other, count = 0x30000, 0x30004, 0x30040
		laps               = 40
		limit              = localBase + 64
	)
	for _, arch := range arches {
		run := func(always bool, program func() *asm) (state string, kept int) {
			r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: 3, alwaysLooks: always})
			v := r.worker(1, 2)
			r.run(v, program())
			for lap := range uint32(laps) {
				r.st(v, other, lap) // in the same line
				if got := r.ld(v, count); got != lap {
					t.Fatalf("%v: %d laps before word %d", arch, got, lap)
				}
				r.st(v, word, lap+1)
			}
			equal(t, r.ld(v, count), laps, "%v: laps", arch)
			if s := r.c.tileAt(r.raw(v)).core(chip.BRISC).seen; s != nil {
				kept = int(s.next)
			}
			return r.state(), kept
		}
		for _, tt := range []struct {
			name    string
			program func() *asm
			kept    int // waits that differ
		}{
			// It clears the word after each lap.
			{"the same", func() *asm {
				return onB().li(s0, 0).li(a0, word).li(a2, count).
					label("wait").lw(a1, a0, 0).beq(a1, x0, "wait").
					sw(x0, a0, 0).addi(s0, s0, 1).sw(s0, a2, 0).j("wait")
			}, 1},
			{"another register", func() *asm {
				return onB().li(s0, 0).li(a0, word).li(a2, count).
					label("wait").lw(a1, a0, 0).branch(7, s0, a1, "wait").
					addi(s0, s0, 1).sw(s0, a2, 0).j("wait")
			}, laps + 1},
			{"another value in local RAM", func() *asm {
				return onB().li(s0, 0).li(a0, word).li(a2, count).li(a3, limit).sw(x0, a3, 0).
					label("wait").lw(a1, a0, 0).lw(a4, a3, 0).branch(7, a4, a1, "wait").
					addi(a4, a4, 1).sw(a4, a3, 0).sw(a4, a2, 0).j("wait")
			}, laps + 1},
		} {
			state, kept := run(false, tt.program)
			want, none := run(true, tt.program)
			if state != want {
				t.Errorf("%v, %s: the state is %s, want %s, as with all waits executed", arch, tt.name, state, want)
			}
			if kept != tt.kept%256 || none != 0 {
				t.Errorf("%v, %s: %d waits were kept, want %d; %d when all are executed", arch, tt.name, kept, tt.kept, none)
			}
		}
	}
}

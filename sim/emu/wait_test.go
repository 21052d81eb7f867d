package emu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

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

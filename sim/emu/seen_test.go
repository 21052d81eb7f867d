package emu

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

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

package emu

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// A core that waits where it waited before, for the same, does so without executing the loop again;
// with another value in a register or in local RAM it doesn't.
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
			if got := r.ld(v, count); got != laps {
				t.Errorf("%v: %d laps, want %d", arch, got, laps)
			}
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
			// It clears the word after each lap: all waits are the same.
			{"the same", func() *asm {
				return newAsm(0x1000).li(s0, 0).li(a0, word).li(a2, count).
					label("wait").lw(a1, a0, 0).beq(a1, x0, "wait").
					sw(x0, a0, 0).addi(s0, s0, 1).sw(s0, a2, 0).j("wait")
			}, 1},
			{"another register", func() *asm {
				return newAsm(0x1000).li(s0, 0).li(a0, word).li(a2, count).
					label("wait").lw(a1, a0, 0).branch(7, s0, a1, "wait").
					addi(s0, s0, 1).sw(s0, a2, 0).j("wait")
			}, laps + 1},
			{"another value in local RAM", func() *asm {
				return newAsm(0x1000).li(s0, 0).li(a0, word).li(a2, count).li(a3, limit).sw(x0, a3, 0).
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

// A wait isn't the one that it was if a register that its loop names, or a word that it reads in L1
// or in local RAM, is another one, or if its code was. What the loop doesn't look at doesn't
// matter.
func TestWaitsAgainAsItWas(t *testing.T) {
	const (
		word  = 0x30000
		limit = localBase + 64
	)
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(1, 2)
		r.run(v, newAsm(0x1000).li(a0, word).li(a3, limit).li(a4, 7).sw(a4, a3, 0).li(a4, 0).li(s0, 5).
			label("wait").lw(a1, a0, 0).lw(a2, a3, 0).beq(a1, a4, "wait").halt())
		w := r.c.tileAt(r.raw(v))
		k := w.core(chip.BRISC)
		if k.state != parked || !k.waitsAgain() {
			t.Fatalf("%v: the core is %v, and its wait isn't known", arch, k.state)
		}
		for _, tt := range []struct {
			name string
			at   *uint32
			want bool
		}{
			{"a register that the loop reads", &k.X[a4], false},
			{"a register that it writes", &k.X[a2], false},
			{"a word of L1", &w.l1[word/4], false},
			{"a word of local RAM", &k.local[(limit-localBase)/4], false},
			{"another register", &k.X[s0], true},
			{"the next word of L1", &w.l1[word/4+1], true},
			{"the next word of local RAM", &k.local[(limit-localBase)/4+1], true},
		} {
			*tt.at ^= 1
			if got := k.waitsAgain(); got != tt.want {
				t.Errorf("%v: with %s changed the wait is the one that it was: %v, want %v", arch, tt.name, got, tt.want)
			}
			*tt.at ^= 1
		}
		w.overwritten(k.pc >> lineShift)
		if k.waitsAgain() {
			t.Errorf("%v: the wait is the one that it was after a store to its code", arch)
		}
	}
}

package emu

import (
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

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

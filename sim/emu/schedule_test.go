package emu

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/schedules"
)

const flagA, flagB, dataAt, resultAt = 0x30000, 0x30010, 0x50000, 0x60000

// counts is an atomic addition of 1 to a word of another tile, on a virtual channel.
func counts(v, to chip.XY, addr, vc uint32) nocRequest {
	return nocRequest{buf: 3, targ: uint64(addr), targXY: to, ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked | ctrlStaticVC | vc<<13,
		len: 0x107C | addr>>2&3, dat: 1}
}

// scheduled are programs of two workers, v and w, that fail under some schedules unless put right:
// a word of w then isn't what it should be.
var scheduled = []struct {
	name  string
	do    func(r *rig, v, w chip.XY, right bool)
	right uint32
	fails int // the run that shows it
	runs  int // of the program put right
}{
	{"a signal is lost", func(r *rig, v, w chip.XY, right bool) {
		a, b := onB(), onB()
		if !right {
			a.stw(flagA, 0) // too late, if it was counted up before
		}
		for range 600 { // nearly always late enough
			b.addi(a2, a2, 1)
		}
		r.load(w, a.poll(r.arch, flagA, "signal").stw(resultAt, 1).halt())
		r.load(v, b.request(r.arch, counts(v, w, flagA, 1)).halt())
	}, 1, 2, 1},
	{"two take the same lock", func(r *rig, v, w chip.XY, right bool) {
		for i, x := range []chip.XY{v, w} {
			a := onB().li(s0, 1)
			for range 600 * i {
				a.addi(a2, a2, 1)
			}
			look := nocRequest{buf: 1, targ: flagA, targXY: w, ret: 0x40000, retXY: x, ctrl: ctrlRead | staticVC1, len: 4}
			wait := uint32(cntReadResp)
			if right {
				look = counts(x, w, flagA, 1)
				look.ret, look.len, wait = 0x40000, 0x4000|1<<6, cntAtomicResp
			}
			a.request(r.arch, look).waitCounter(0, wait, s0, "looked").li(a0, 0x40000).lw(a1, a0, 0).bne(a1, x0, "taken")
			if !right {
				a.request(r.arch, counts(x, w, flagA, 1))
			}
			r.load(x, a.request(r.arch, counts(x, w, resultAt, 1)).label("taken").halt())
		}
	}, 1, 2, 2},
	{"a signal overtakes data", func(r *rig, v, w chip.XY, right bool) {
		r.st(v, 0x40000, 7)
		r.load(w, onB().poll(r.arch, flagA, "signal").li(a0, dataAt).lw(a1, a0, 0).li(a0, resultAt).sw(a1, a0, 0).halt())
		r.load(v, onB().request(r.arch, r.sendTo(v, w)).request(r.arch, counts(v, w, flagA, choose[uint32](right, 1, 2))).halt())
	}, 7, 3, 2},
}

func TestSchedules(t *testing.T) {
	for _, p := range scheduled {
		for _, arch := range arches {
			for _, right := range []bool{false, true} {
				t.Run(p.name+" "+arch.String()+choose(right, " right", ""), func(t *testing.T) {
					run := func(f *schedules.File) (schedules.Result, uint32) {
						s := schedules.NewRun(f.Holds)
						r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: f.Seed, Schedule: s})
						v, w := r.worker(0, 0), r.worker(2, 2)
						r.write(v, dataAt, make([]byte, 64))
						p.do(r, v, w, right)
						// One store releases both, so that they run together.
						r.releaseBoth(v, w)
						got := r.ld(w, resultAt)
						r.healthy()
						return s.Result(), got
					}
					bounds := schedules.Bounds{Schedules: 20, Preemptions: 3, Seed: 1}
					under := func(_ context.Context, f *schedules.File) (schedules.Result, string, error) {
						res, got := run(f)
						return res, choose(got != p.right, "wrong", ""), nil
					}
					state := value(schedules.Explore(t.Context(), bounds, under))(t)
					if right {
						equal(t, state.All(), true, "all seen")
						equal(t, state.Runs, p.runs, "runs")
						return
					}
					equal(t, state.Runs, p.fails, "runs until it fails")
					if state.Failing == nil {
						t.Fatal("no schedule fails")
					}
					f := value(schedules.Parse(state.Failing.JSON()))(t)
					noDiff(t, f, state.Failing, "the file")
					one, got := run(f)
					two, again := run(f)
					if diff := cmp.Diff(one, two); diff != "" || got == p.right || got != again {
						t.Errorf("repeated: %d and %d, %s", got, again, diff)
					}
				})
			}
		}
	}
}

// releaseBoth releases BRISC of two workers within one access.
func (r *rig) releaseBoth(v, w chip.XY) {
	r.c.acquire()
	defer r.c.release()
	for _, x := range []chip.XY{v, w} {
		raw := r.raw(x)
		r.c.grid[raw.Y][raw.X].tile.store(origin{}, 0xFFB121B0, 0x47000)
	}
}

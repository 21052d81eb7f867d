package emu

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/schedules"
)

const flagA, dataAt, resultAt = 0x30000, 0x50000, 0x60000

// counts is an atomic addition of 1 to a word of another tile, with further bits of NOC_CTRL.
func counts(v, to chip.XY, addr, ctrl uint32) nocRequest {
	return nocRequest{buf: 3, targ: uint64(addr), targXY: to, ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked | ctrl,
		len: 0x107C | addr>>2&3, dat: 1}
}

// scheduled are programs of two workers, v and w, that fail under some schedules unless put right:
// a word of w then isn't what it should be.
var scheduled = []struct {
	name    string
	do      func(r *rig, v, w chip.XY, right bool)
	right   uint32
	fails   int  // the run that shows it
	watched bool // w stores the word, even then
	runs    int  // of the program put right
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
		r.load(v, b.request(r.arch, counts(v, w, flagA, staticVC1)).halt())
	}, 1, 2, false, 1},
	{"two take the same lock", func(r *rig, v, w chip.XY, right bool) {
		for i, x := range []chip.XY{v, w} {
			a := onB().li(s0, 1)
			for range 600 * i {
				a.addi(a2, a2, 1)
			}
			look := nocRequest{buf: 1, targ: flagA, targXY: w, ret: 0x40000, retXY: x, ctrl: ctrlRead | staticVC1, len: 4}
			wait := uint32(cntReadResp)
			if right {
				look = counts(x, w, flagA, staticVC1)
				look.ret, look.len, wait = 0x40000, 0x4000|1<<6, cntAtomicResp
			}
			a.request(r.arch, look).waitCounter(0, wait, s0, "looked").li(a0, 0x40000).lw(a1, a0, 0).bne(a1, x0, "taken")
			if !right {
				a.request(r.arch, counts(x, w, flagA, staticVC1))
			}
			r.load(x, a.request(r.arch, counts(x, w, resultAt, staticVC1)).label("taken").halt())
		}
	}, 1, 2, false, 2},
	{"a signal overtakes data", func(r *rig, v, w chip.XY, right bool) {
		r.st(v, 0x40000, 7)
		r.load(w, onB().poll(r.arch, flagA, "signal").li(a0, dataAt).lw(a1, a0, 0).li(a0, resultAt).sw(a1, a0, 0).halt())
		vc := choose[uint32](right, 1, 2)
		r.load(v, onB().request(r.arch, r.sendTo(v, w)).
			li(a0, niuAddress(0, 0x100)).lw(a1, a0, 0). // which tells nothing of the first request
			request(r.arch, counts(v, w, flagA, ctrlStaticVC|vc<<13)).halt())
	}, 7, 3, true, 2},
}

// debugged steps v, and w may pause when it stores its result. What w polls changes and comes back.
func debugged(o *rig, v, w chip.XY, watch bool) {
	p, q := debugProbe{o, v, 0}, debugProbe{o, w, 0}
	p.pause()
	q.pause()
	for range 40 {
		flag := o.ld(w, flagA)
		o.st(w, flagA, flag+1)
		o.st(w, flagA, flag)
		if o.ld(v, uint64(p.reg(regPC))) == 0x6F {
			break
		}
		p.step()
	}
	q.set(drAddress, resultAt)
	q.set(drModes, choose[uint32](watch, watchStore, 0))
	for _, d := range []debugProbe{p, q} {
		d.set(drCommand, cmdSlow|cmdResume)
	}
	if watch {
		q.paused(hitWatch | hitFirst)
	}
	q.set(drModes, 0)
	for _, d := range []debugProbe{q, p} {
		if d.get(drStatus)&pausedBit != 0 {
			d.set(drCommand, cmdSlow|cmdResume)
		}
		d.set(drCommand, 0)
	}
}

func TestSchedules(t *testing.T) {
	for _, p := range scheduled {
		for _, arch := range arches {
			for _, right := range []bool{false, true} {
				t.Run(p.name+" "+arch.String()+choose(right, " right", ""), func(t *testing.T) {
					run := func(f *schedules.File, debug bool) (schedules.Result, uint32) {
						s, stopped, done := schedules.NewRun(f), make(chan bool), make(chan bool)
						r := newRig(t, Config{Arch: arch, Synchronous: true, Schedule: s})
						v, w := r.worker(0, 0), r.worker(2, 2)
						r.write(v, dataAt, make([]byte, 64))
						p.do(r, v, w, right)
						if debug {
							s.Stop = func(schedules.Hold) { close(stopped) }
							go func() {
								defer close(done)
								<-stopped
								debugged(observing(r), v, w, p.watched)
							}()
						}
						r.c.acquire() // within one access, so that both run together
						for _, x := range []chip.XY{r.raw(v), r.raw(w)} {
							r.c.grid[x.Y][x.X].tile.store(origin{}, 0xFFB121B0, 0x47000)
						}
						r.c.release()
						if debug {
							<-done
						}
						got := r.ld(w, resultAt)
						r.healthy()
						return s.Result(), got
					}
					file, f := filepath.Join(t.TempDir(), "state.json"), &schedules.File{Preemptions: 3, Seed: 1}
					under := func(f *schedules.File) (schedules.Result, error, error) {
						res, got := run(f, false)
						return res, choose(got != p.right, errors.New("wrong"), nil), nil
					}
					state := value(schedules.Explore(t.Context(), file, 20, f, under))(t)
					if right {
						equal(t, state.All(), true, "all seen")
						equal(t, state.Runs, p.runs, "runs")
						return
					}
					equal(t, state.Runs, p.fails, "runs until it fails")
					equal(t, state.Failure, "wrong", "failure")
					f = value(schedules.ReadFile(file))(t)
					noDiff(t, f, state, "the file")
					one, got := run(f, false)
					two, again := run(f, true)
					noDiff(t, two, one, "repeated")
					equal(t, again, got, "result")
					equal(t, got == p.right, false, "it is right")
				})
			}
		}
	}
}

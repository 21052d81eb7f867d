package emu

import (
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
)

// assumed are programs that rely on one assumption.
func assumed() map[Assumptions]func(r *rig, v, w chip.XY) *asm {
	return map[Assumptions]func(r *rig, v, w chip.XY) *asm{
		// It sends a word that it has just stored.
		StoresInOrder: func(r *rig, v, w chip.XY) *asm {
			return onB().stw(0x40000, 7).request(r.arch, r.sendTo(v, w)).halt()
		},
		// It changes the source of a write that is counted as sent.
		SentIsRead: func(r *rig, v, w chip.XY) *asm {
			return onB().li(s0, 1).request(r.arch, r.sendTo(v, w)).waitCounter(0, cntWriteSent, s0, "sent").stw(0x40020, 7).halt()
		},
		// It polls an id's counter straight after the request.
		CountedAtOnce: func(r *rig, v, w chip.XY) *asm {
			q := r.fetchFrom(v, w)
			q.tag = 3 << 10
			return onB().request(r.arch, q).waitCounter(0, cntOutstanding+3, x0, "answered").halt()
		},
		// It sends bytes, and tells another program, which then changes them.
		ReadInOrder: func(r *rig, v, w chip.XY) *asm {
			if r.dev != nil {
				r.changesPage(v, w)
			}
			return onB().request(r.arch, r.sendTo(v, r.worker(3, 3))).request(r.arch, increment(v, w, 0x48000)).halt()
		},
		// It loads a word just after a store to its last byte.
		PassedBytesUnused: func(r *rig, v, w chip.XY) *asm {
			return onB().stw(0x48000, 0x010203).li(a0, 0x48000).sb(x0, a0, 3).lw(a1, a0, 0).
				emit(itype(0x13, 1, a1, a1, 8)).sw(a1, a0, 8).halt().forget(8)
		},
		UnwrittenUnused: func(r *rig, v, w chip.XY) *asm {
			return onB().li(a0, 0x48000).lw(a1, a0, 0).sw(a1, a0, 8).halt().forget(16)
		},
		// It releases a semaphore while unpacker 0 may work.
		ContextIsRead: func(*rig, chip.XY, chip.XY) *asm {
			return onB().pushes(pushInit, pushPost, pushUnpack, pushGet)
		},
		// It tells others that SrcA is cleared.
		ZeroedAtOnce: func(*rig, chip.XY, chip.XY) *asm {
			return onB().pushes(pushInit, pushZero, pushPost)
		},
		// It uses a semaphore while the matrix unit may still work.
		BootIsOver: func(*rig, chip.XY, chip.XY) *asm {
			return onB().pushes(pushInit, pushRWC, pushPost)
		},
	}
}

func increment(v, w chip.XY, addr uint64) nocRequest {
	return nocRequest{buf: 3, targ: addr, targXY: w, ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked | ctrlStaticVC | 2<<13,
		len: 0x107C, dat: 1}
}

// changesPage lets w change the word at 0x40000 of v once the one at 0x48000 of w isn't 0.
func (r *rig) changesPage(v, w chip.XY) {
	r.write(w, 0x48000, make([]byte, 16))
	r.run(w, onB().poll(r.arch, 0x48000, "page").request(r.arch, increment(w, v, 0x40000)).halt())
}

func TestReadInOrderHoldsForOthers(t *testing.T) {
	for _, arch := range arches {
		for name, c := range map[string]struct {
			others   bool
			accepted bool
			program  func(a *asm, r *rig, v, w chip.XY) *asm
		}{
			"another agent": {true, true, func(a *asm, r *rig, v, w chip.XY) *asm { return a.request(arch, increment(v, w, 0x48000)) }},
			"own store": {false, false, func(a *asm, r *rig, v, w chip.XY) *asm {
				return a.request(arch, increment(v, w, 0x48000)).stw(0x40000, 7)
			}},
			"the other NoC": {true, false, func(a *asm, r *rig, v, w chip.XY) *asm {
				q := increment(v, w, 0x48000)
				q.noc = 1
				return a.request(arch, q)
			}},
		} {
			build := func(r *rig, v, w chip.XY) *asm {
				return c.program(onB().request(arch, r.sendTo(v, r.worker(3, 3))), r, v, w).halt()
			}
			plan := planned(t, arch)
			text := build(plan, plan.worker(0, 0), plan.worker(2, 2)).bytes()
			for _, delay := range []int{0, 80} {
				r := newRig(t, Config{Arch: arch, Synchronous: true, Delay: delay, RefuseRaces: true,
					Waivers: []Waiver{{Name: "it", Text: text, Assume: ReadInOrder}}})
				v, w := r.worker(0, 0), r.worker(2, 2)
				r.write(v, 0x40000, pattern(64, 1))
				if c.others {
					r.changesPage(v, w)
				} else {
					r.write(w, 0x48000, make([]byte, 16))
				}
				r.run(v, build(r, v, w))
				if err := r.dev.Fault(); (err == nil) != c.accepted {
					t.Errorf("%v, delay %d, %s: %v", arch, delay, name, err)
				}
			}
		}
	}
}

// Tensix instructions; the semaphore is number 1.
const (
	pushInit   = 0xA3<<24 | 15<<20 | 1<<3
	pushPost   = 0xA4<<24 | 1<<3
	pushGet    = 0xA5<<24 | 1<<3
	pushUnpack = 0x43<<24 | 1
	pushZero   = 0x11<<24 | 7
	pushRWC    = 0x37 << 24
)

func (a *asm) pushes(list ...uint32) *asm {
	for _, w := range list {
		a.stw(pushBase, w)
	}
	return a.forget(8).halt()
}

func TestWaivers(t *testing.T) {
	for _, arch := range arches {
		for a, program := range assumed() {
			if a == PassedBytesUnused && arch != chip.Wormhole {
				continue
			}
			run := func(name string, accepted bool, waivers func(text []byte) []Waiver) {
				for _, delay := range effort.Of([]int{80}, []int{0, 80}, []int{0, 80}) {
					cfg := Config{Arch: arch, Synchronous: true, Delay: delay, RefuseRaces: true, RefuseCounters: true,
						RefuseUnwritten: a == UnwrittenUnused}
					plan := planned(t, arch)
					cfg.Waivers = waivers(program(plan, plan.worker(0, 0), plan.worker(2, 2)).bytes())
					r := newRig(t, cfg)
					v, w := r.worker(0, 0), r.worker(2, 2)
					r.write(v, 0x40000, pattern(64, 1))
					r.write(w, 0x50000, pattern(64, 2))
					r.run(v, program(r, v, w))
					if err := r.dev.Fault(); (err == nil) != accepted {
						t.Errorf("%v, assumption %#x, delay %d, %s: %v", arch, a, delay, name, err)
					}
				}
			}
			run("no waiver", false, func([]byte) []Waiver { return nil })
			run("waiver", true, func(text []byte) []Waiver { return []Waiver{{Name: "it", Text: text, Assume: a}} })
			run("waiver of everything", true, func(text []byte) []Waiver {
				return []Waiver{{Name: "it", Text: text, Assume: allAssumptions}}
			})
			run("one waiver of two", true, func(text []byte) []Waiver {
				return []Waiver{{Name: "other", Text: pattern(256, 3), Assume: allAssumptions}, {Name: "it", Text: text, Assume: a}}
			})
			run("waiver of another assumption", false, func(text []byte) []Waiver {
				return []Waiver{{Name: "it", Text: text, Assume: allAssumptions &^ a &^ BootIsOver}}
			}) // which is about all units
			run("waiver of another program", false, func(text []byte) []Waiver {
				for i := 8; i < len(text); i += 16 {
					text[i] ^= 0x80
				}
				return []Waiver{{Name: "other", Text: text, Assume: allAssumptions}}
			})
		}
	}
}

func TestWaiversThatAreNone(t *testing.T) {
	for name, w := range map[string]Waiver{
		"no assumption": {Text: make([]byte, 64)},
		"unknown":       {Text: make([]byte, 64), Assume: 0x80},
		"short":         {Text: make([]byte, 60), Assume: SentIsRead},
	} {
		if _, err := New(Config{Arch: chip.Blackhole, Waivers: []Waiver{w}}); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSourceKeepsItsValue(t *testing.T) {
	for _, arch := range arches {
		for _, right := range []bool{true, false} {
			r := newRig(t, Config{Arch: arch, Synchronous: true, Delay: 80, RefuseRaces: true})
			v := r.worker(0, 0)
			r.write(v, 0x40000, pattern(64, 1))
			a := onB().request(arch, r.sendTo(v, r.worker(2, 2))).li(a0, 0x40000)
			for i := range int32(4) {
				a.lbu(a1, a0, 4*i).sb(a1, a0, 4*i).lw(a1, a0, 16+4*i).sw(a1, a0, 16+4*i)
			}
			if !right {
				a.lbu(a1, a0, 33).addi(a1, a1, 1).sb(a1, a0, 33)
			}
			r.run(v, a.halt())
			if err := r.dev.Fault(); (err == nil) != right {
				t.Errorf("%v, %v: %v", arch, right, err)
			}
		}
	}
}

package emu

import (
	"runtime"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// processors makes a chip that the test opens one with that many processors: with one nobody polls.
func processors(t *testing.T, n int) {
	t.Helper()
	was := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(was) })
}

// A host that loads while the chip runs doesn't get the token: whoever has it answers, after the
// stores that came before.
func TestLoadIsAnswered(t *testing.T) {
	processors(t, 2)
	r := newRig(t, Config{Arch: chip.Blackhole})
	v := r.worker(3, 3)
	at := r.point(v, 0x50000)
	r.c.acquire()
	got := make(chan uint64)
	go func() {
		r.c.BARStore(0, at, 4, 0x12345678)
		got <- r.c.BARLoad(0, at+2, 2)
	}()
	r.eventually("two accesses", func() bool { return r.c.posted.tail.Load()-r.c.posted.head.Load() == 2 })
	r.c.takePosted()
	if a := &r.c.answers[0]; a.value != 0x1234 {
		t.Errorf("the first answer is %#x, want 0x1234", a.value)
	}
	r.c.release() // the host may have lost its patience
	if v := <-got; v != 0x1234 {
		t.Errorf("loaded %#x, want 0x1234", v)
	}
}

// Hosts load at the same time, more of them than there are answers, while a core counts: each gets
// the value of its own word, and what it has stored itself.
func TestHostsLoadWhileChipRuns(t *testing.T) {
	for _, n := range []int{2, 1} {
		processors(t, n)
		r := newRig(t, Config{Arch: chip.Wormhole})
		v := r.worker(0, 0)
		r.run(v, newAsm(0x1000).li(a0, 0x40000).label("loop").addi(a1, a1, 1).sw(a1, a0, 0).j("loop"))
		at := r.point(v, 0x50000)
		var wg sync.WaitGroup
		for h := range uint64(2 * maxAsked) {
			wg.Go(func() {
				for n := range uint64(500) {
					want := h<<16 | n
					r.c.BARStore(0, at+4*h, 4, want)
					if got := r.c.BARLoad(0, at+4*h, 4); got != want {
						t.Errorf("host %d loaded %#x, want %#x", h, got, want)
						return
					}
				}
			})
		}
		wg.Wait()
		for i := range r.c.answers {
			if s := r.c.answers[i].state.Load(); s != answerFree {
				t.Errorf("answer %d has state %d after all loads", i, s)
			}
		}
	}
}

// Loads that were posted to a chip that stops meanwhile find all ones, of their width.
func TestLoadOfStoppedChip(t *testing.T) {
	processors(t, 2)
	r := newRig(t, Config{Arch: chip.Blackhole})
	at := r.point(r.worker(3, 3), 0x50000)
	r.c.acquire()
	got := make(chan uint64)
	go func() { got <- r.c.BARLoad(0, at, 2) }()
	r.eventually("a posted load", r.c.posted.pending)
	r.c.fault = ErrClosed
	r.c.release()
	if v := <-got; v != 0xFFFF {
		t.Errorf("loaded %#x, want 0xFFFF", v)
	}
}

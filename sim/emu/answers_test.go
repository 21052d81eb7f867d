package emu

import (
	"runtime"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

func processors(t *testing.T, n int) {
	t.Helper()
	was := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(was) })
}

// Whoever has the token answers a load, after the stores that came before.
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
	equal(t, <-got, 0x1234, "loaded")
}

// More hosts load than there are answers: each gets the value of its own word.
func TestHostsLoadWhileChipRuns(t *testing.T) {
	for _, n := range []int{2, 1} {
		processors(t, n)
		r := newRig(t, Config{Arch: chip.Wormhole})
		v := r.worker(0, 0)
		r.run(v, onB().li(a0, 0x40000).label("loop").addi(a1, a1, 1).sw(a1, a0, 0).j("loop"))
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
			equal(t, r.c.answers[i].state.Load(), answerFree, "the state of answer %d after all loads", i)
		}
	}
}

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
	equal(t, <-got, 0xFFFF, "loaded")
}

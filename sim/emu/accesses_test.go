package emu

import (
	"reflect"
	"runtime"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// More hosts push at once than there are slots.
func TestAccessQueue(t *testing.T) {
	const hosts, each = 3, 2*accessPlaces + 7
	q := new(accessQueue)
	q.head.Store(1<<32 - 5) // the numbers of slots start again soon
	q.taken.Store(1<<32 - 5)
	q.tail.Store(1<<32 - 5)
	var wg sync.WaitGroup
	for h := range hosts {
		wg.Go(func() {
			for n := range each {
				for !q.push(hostAccess{off: uint64(h), v: uint64(n), bar: 4, width: 8}) {
					runtime.Gosched()
				}
			}
		})
	}
	var next [hosts]uint64
	for range hosts * each {
		for q.head.Load() == q.tail.Load() {
			runtime.Gosched()
		}
		s := q.take()
		if want := (hostAccess{off: s.off, v: next[s.off], bar: 4, width: 8}); s != want {
			t.Fatalf("took %+v, want %+v", s, want)
		}
		next[s.off]++
	}
	wg.Wait()
	if q.pending() {
		t.Error("there is a store after the last one")
	}
}

func TestAwakeChipTakesPostedStores(t *testing.T) {
	r := newRig(t, Config{Arch: chip.Wormhole, Awake: true})
	at := r.point(r.worker(0, 0), 0x50000)
	r.c.BARLoad(0, at, 4)
	before := r.c.posted.tail.Load()
	const stores = 2*accessPlaces + 1
	for n := range uint64(stores) {
		r.c.BARStore(0, at, 4, n)
		r.eventually("a store that is taken", func() bool { return !r.c.posted.pending() })
	}
	if n := r.c.posted.tail.Load() - before; n < stores {
		t.Errorf("%d of %d stores took a place", n, stores)
	}
	equal(t, r.c.BARLoad(0, at, 4), stores-1, "store")
}

func TestAccessesLieInLines(t *testing.T) {
	const line = 64
	address := func(p any) uintptr { return reflect.ValueOf(p).Pointer() }
	for range 5 {
		r := newRig(t, Config{Arch: chip.Wormhole, Synchronous: true})
		q := &r.c.posted
		if a := address(q); a%line != 0 || address(&q.head)-a != line || address(&q.places)-a != 2*line {
			t.Errorf("queue at %#x, its head at %#x, its places at %#x: each should begin a line of %d bytes", a, address(&q.head),
				address(&q.places), line)
		}
		if a, size := address(&r.c.answers), reflect.TypeFor[answer]().Size(); a%line != 0 || size != line {
			t.Errorf("answers of %d bytes at %#x: each should have a line of %d bytes", size, a, line)
		}
		if size := reflect.TypeFor[accessPlace]().Size(); line%size != 0 {
			t.Errorf("a place of %d bytes lies in two lines of %d", size, line)
		}
	}
}

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

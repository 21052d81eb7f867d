package emu

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// Hosts push at the same time, and more than there are places: each host's stores stay in order, and none is lost.
func TestAccessQueue(t *testing.T) {
	const hosts, each = 3, 2*accessPlaces + 7
	q := new(accessQueue)
	q.head.Store(1<<32 - 5) // the numbers of places start again soon
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

// A full queue refuses a store, and takes it once there is room.
func TestAccessQueueIsFull(t *testing.T) {
	q := new(accessQueue)
	for n := range uint64(accessPlaces) {
		if !q.push(hostAccess{v: n}) {
			t.Fatalf("no room for store %d of %d", n, accessPlaces)
		}
	}
	if last := (hostAccess{v: accessPlaces}); q.push(last) {
		t.Error("a full queue took a store")
	} else if s := q.take(); s.v != 0 || !q.push(last) {
		t.Errorf("took store %d, want 0, and room for one more", s.v)
	}
}

// A host that loads while the chip runs doesn't get the token: whoever has it answers, after the stores that came before.
func TestLoadIsAnswered(t *testing.T) {
	r := newRig(t, Config{Arch: chip.Blackhole})
	r.c.polls = true // as with several processors
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

// Hosts load at the same time, more of them than there are answers, while a core counts: each gets the value of its own word, and what it
// has stored itself.
func TestHostsLoadWhileChipRuns(t *testing.T) {
	for _, polls := range []bool{true, false} {
		r := newRig(t, Config{Arch: chip.Wormhole})
		r.c.polls = polls
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
	r := newRig(t, Config{Arch: chip.Blackhole})
	r.c.polls = true
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

// The goroutine that runs a chip polls for a 32nd of what it has worked, and not at all with one processor.
func TestSpareTime(t *testing.T) {
	var s sched
	s.earn(time.Hour)
	if s.spare != 0 {
		t.Errorf("%v to spare with one processor", s.spare)
	}
	s.polls = true
	for _, c := range []struct{ worked, want time.Duration }{
		{1600 * time.Microsecond, 50 * time.Microsecond}, {320 * time.Microsecond, 60 * time.Microsecond}, {time.Hour, maxSpare},
	} {
		if s.earn(c.worked); s.spare != c.want {
			t.Errorf("%v to spare after %v more of work, want %v", s.spare, c.worked, c.want)
		}
	}
	s.chip, s.kick, s.spare = new(Chip), make(chan struct{}, 1), time.Microsecond
	time.AfterFunc(5*time.Millisecond, func() { s.kick <- struct{}{} })
	if s.awaitKick(); s.spare != 0 {
		t.Errorf("%v to spare after more than that without work", s.spare)
	}
	s.spare = time.Hour
	s.kick <- struct{}{}
	if s.awaitKick(); s.spare == 0 || s.spare == time.Hour {
		t.Errorf("%v of an hour to spare after a moment without work", s.spare)
	}
}

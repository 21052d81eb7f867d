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

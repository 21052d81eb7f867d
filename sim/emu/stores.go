package emu

import (
	"runtime"
	"sync/atomic"

	"github.com/reprise-tt/reprise/internal/release"
)

// hostStore is a store of the host to a BAR.
type hostStore struct {
	off, v     uint64
	bar, width uint8
}

// storeQueue holds stores of the host that came while the chip was running, in order. A host takes a place with one atomic
// instruction and fills it with plain stores, the last of which says that the place is filled. The goroutine that takes
// from the queue never makes a host wait.
//
// Words that hosts write, words that the chip writes and words that the chip polls lie in cache lines of their own:
// otherwise a store would wait several times for the chip's processor to release a line.
type storeQueue struct {
	tail   atomic.Uint32 // the next place, modulo 2^32
	taken  atomic.Uint32 // head, when a host last loaded it
	_      [56]byte
	head   atomic.Uint32 // the place of the oldest store
	_      [60]byte
	places [storePlaces]storePlace
}

// storePlaces is a power of two: more than the doorbells that a host rings while a core has its longest slice.
const storePlaces = 1024

// storePlace takes half a cache line.
type storePlace struct {
	hostStore
	filled uint32 // the number of the next place, once the store is here
}

func (q *storeQueue) at(place uint32) *storePlace { return &q.places[place%storePlaces] }

func (p *storePlace) holds(place uint32) bool { return atomic.LoadUint32(&p.filled) == place+1 }

// pending reports whether the oldest store is there.
func (q *storeQueue) pending() bool {
	head := q.head.Load()
	return q.at(head).holds(head)
}

// push reports whether there was room.
func (q *storeQueue) push(s hostStore) bool {
	for {
		place := q.tail.Load()
		// Negative if the place was loaded long ago.
		if int32(place-q.taken.Load()) >= storePlaces {
			head := q.head.Load()
			if q.taken.Store(head); int32(place-head) >= storePlaces {
				return false
			}
		}
		if q.tail.CompareAndSwap(place, place+1) {
			p := q.at(place)
			p.hostStore = s
			release.Store(&p.filled, place+1)
			return true
		}
	}
}

// take returns the oldest store, whose place a host has taken. Only one goroutine may take.
func (q *storeQueue) take() hostStore {
	head := q.head.Load()
	p := q.at(head)
	for n := 1; !p.holds(head); n++ { // the host is about to fill it
		if n%spins == 0 {
			runtime.Gosched()
		}
	}
	s := p.hostStore
	q.head.Store(head + 1)
	return s
}

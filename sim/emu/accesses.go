package emu

import (
	"runtime"
	"sync/atomic"

	"github.com/reprise-tt/reprise/internal/release"
)

// hostAccess is a store of the host to a BAR, or a load.
type hostAccess struct {
	off        uint64
	v          uint64 // what to store; of a load the number of its answer
	bar, width uint8
	load       bool
}

// accessQueue holds accesses of the host that came while the chip was running, in order. A host takes a place with one atomic
// instruction and fills it with plain stores, the last of which says that the place is filled. The goroutine that takes
// from the queue never makes a host wait.
//
// Words that hosts write, words that the chip writes and words that the chip polls lie in cache lines of their own:
// otherwise an access would wait several times for the chip's processor to release a line.
type accessQueue struct {
	tail   atomic.Uint32 // the next place, modulo 2^32
	taken  atomic.Uint32 // head, when a host last loaded it
	_      [56]byte
	head   atomic.Uint32 // the place of the oldest access
	_      [60]byte
	places [accessPlaces]accessPlace
}

// accessPlaces is a power of two: more than the doorbells that a host rings while a core has its longest slice.
const accessPlaces = 1024

// accessPlace takes half a cache line.
type accessPlace struct {
	hostAccess
	filled uint32 // the number of the next place, once the access is here
}

func (q *accessQueue) at(place uint32) *accessPlace { return &q.places[place%accessPlaces] }

func (p *accessPlace) holds(place uint32) bool { return atomic.LoadUint32(&p.filled) == place+1 }

// pending reports whether the oldest access is there.
func (q *accessQueue) pending() bool {
	head := q.head.Load()
	return q.at(head).holds(head)
}

// push reports whether there was room.
func (q *accessQueue) push(a hostAccess) bool {
	for {
		place := q.tail.Load()
		// Negative if the place was loaded long ago.
		if int32(place-q.taken.Load()) >= accessPlaces {
			head := q.head.Load()
			if q.taken.Store(head); int32(place-head) >= accessPlaces {
				return false
			}
		}
		if q.tail.CompareAndSwap(place, place+1) {
			p := q.at(place)
			p.hostAccess = a
			release.Store(&p.filled, place+1)
			return true
		}
	}
}

// take returns the oldest access, whose place a host has taken. Only one goroutine may take.
func (q *accessQueue) take() hostAccess {
	head := q.head.Load()
	p := q.at(head)
	for n := 1; !p.holds(head); n++ { // the host is about to fill it
		if n%spins == 0 {
			runtime.Gosched()
		}
	}
	a := p.hostAccess
	q.head.Store(head + 1)
	return a
}

// access performs what a host has posted. The caller holds the token.
func (c *Chip) access(a hostAccess) {
	if !a.load {
		c.store(int(a.bar), a.off, int(a.width), a.v)
		return
	}
	to := &c.answers[a.v]
	to.value = c.load(int(a.bar), a.off, int(a.width))
	to.state.Store(answerGiven)
}

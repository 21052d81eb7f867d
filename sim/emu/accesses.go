package emu

import (
	"runtime"
	"sync/atomic"

	"github.com/reprise-tt/reprise/internal/prefetch"
	"github.com/reprise-tt/reprise/internal/release"
)

// hostAccess is a store of the host to a BAR, or a load.
type hostAccess struct { // the compiler keeps four fields in registers
	off   uint64
	v     uint64 // what to store; of a load the number of its answer
	bar   uint8
	width int8 // bytes; of a load negative
}

// exchange is where hosts leave accesses for a chip that runs, and find the answers. An object of
// this size begins with a page, so all that should have cache lines of its own does.
type exchange struct {
	answers [maxAsked]answer
	posted  accessQueue
}

// accessQueue holds accesses of the host that came while the chip was running, in order. A host
// takes a place with one atomic instruction and fills it with plain stores, the last of which says
// that the place is filled. The goroutine that takes from the queue never makes a host wait.
//
// Words that hosts write, words that the chip writes and words that the chip polls lie in cache
// lines of their own: otherwise an access would wait several times for the chip's processor to
// release a line.
type accessQueue struct {
	tail   atomic.Uint32 // the next place, modulo 2^32
	taken  atomic.Uint32 // head, when a host last loaded it
	_      [56]byte
	head   atomic.Uint32 // the place of the oldest access
	_      [60]byte
	places [accessPlaces]accessPlace
}

// accessPlaces is a power of two: more than the doorbells that a host rings while a core has its
// longest slice.
const accessPlaces = 1024

// placesAhead is how far ahead a host fetches places. The chip has read them, so that another
// processor has them in its cache: a host would wait at its next atomic instruction until its store
// has taken the line away.
const placesAhead = 8

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
		if place, ok := q.reserve(); ok {
			q.fill(place, a)
			return true
		}
		head := q.head.Load()
		if q.taken.Store(head); int32(q.tail.Load()-head) >= accessPlaces {
			return false
		}
	}
}

// reserve takes a place, which the caller fills at once. It may fail although there is room: if
// another host takes a place, or if hosts haven't looked for long at what was taken.
func (q *accessQueue) reserve() (place uint32, ok bool) {
	place = q.tail.Load()
	return place, int32(place-q.taken.Load()) < accessPlaces && q.tail.CompareAndSwap(place, place+1)
}

// fill fills a place that was reserved.
func (q *accessQueue) fill(place uint32, a hostAccess) {
	p := q.at(place)
	p.hostAccess = a
	release.Store(&p.filled, place+1)
	prefetch.Write(q.at(place + placesAhead))
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

// maxAsked is for how many loads of hosts there are answers at the same time; others wait for the
// token.
const maxAsked = 8

// answer is where the value of a load goes. It takes a cache line of its own.
type answer struct {
	state atomic.Uint32
	value uint64
	_     [48]byte
}

// States of an answer.
const (
	answerFree uint32 = iota
	answerAwaited
	answerGiven
)

// spins is how often a chip polls before it lets other goroutines run, or looks at the time.
const spins = 256

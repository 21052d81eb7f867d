package emu

import (
	"runtime"
	"sync/atomic"

	"github.com/reprise-tt/reprise/internal/prefetch"
	"github.com/reprise-tt/reprise/internal/release"
)

// hostAccess is a host's store to a BAR, or load.
type hostAccess struct { // four fields fit registers
	off   uint64
	v     uint64 // what to store; of a load the number of its answer
	bar   uint8
	width int8 // bytes; of a load negative
}

// exchange is where hosts leave accesses for a running chip and find answers. Objects of this size
// begin with a page, which aligns its parts to cache lines.
type exchange struct {
	answers [maxAsked]answer
	posted  accessQueue
}

// accessQueue holds host accesses in order. A host takes a place with one atomic instruction and
// fills it with plain stores, the last of which marks it filled. The taker never makes a host wait.
// Words that hosts write, that the chip writes and that the chip polls have cache lines of their
// own.
type accessQueue struct {
	tail   atomic.Uint32 // the next place, modulo 2^32
	taken  atomic.Uint32 // head, when a host last loaded it
	_      [56]byte
	head   atomic.Uint32 // the place of the oldest access
	_      [60]byte
	places [accessPlaces]accessPlace
}

// accessPlaces, a power of two, is more than the doorbells of a core's longest slice.
const accessPlaces = 1024

// placesAhead is how far ahead a host prefetches places, which the chip's processor has cached: its
// next atomic instruction would wait for them.
const placesAhead = 8

// half a cache line
type accessPlace struct {
	hostAccess
	filled uint32 // the next place's number, once filled
}

func (q *accessQueue) at(place uint32) *accessPlace { return &q.places[place%accessPlaces] }

func (p *accessPlace) holds(place uint32) bool { return atomic.LoadUint32(&p.filled) == place+1 }

func (q *accessQueue) pending() bool {
	head := q.head.Load()
	return q.at(head).holds(head)
}

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

// reserve takes a place to fill at once. It may fail although there is room: another host was
// faster, or taken is old.
func (q *accessQueue) reserve() (place uint32, ok bool) {
	place = q.tail.Load()
	return place, int32(place-q.taken.Load()) < accessPlaces && q.tail.CompareAndSwap(place, place+1)
}

func (q *accessQueue) fill(place uint32, a hostAccess) {
	p := q.at(place)
	p.hostAccess = a
	release.Store(&p.filled, place+1)
	prefetch.Write(q.at(place + placesAhead))
}

// take returns the oldest access, for one goroutine.
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

// maxAsked is how many host loads are answered at a time; others wait for the token.
const maxAsked = 8

// answer is a load's result, in a cache line of its own.
type answer struct {
	state atomic.Uint32
	value uint64
	_     [48]byte
}

const (
	answerFree uint32 = iota
	answerAwaited
	answerGiven
)

// spins is how many polls go between yields, or looks at the time.
const spins = 256

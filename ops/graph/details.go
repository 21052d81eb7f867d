package graph

import "sync/atomic"

// Details are what a capture records beside operations and memory. They can be switched at any
// time, as by TT-NN's enable_stack_traces and its like.
type Details uint32

const (
	// DetailStackTraces is the call stack of each function and deallocation; see
	// [Config.StackTraces].
	DetailStackTraces Details = 1 << iota
	// DetailBufferPages is the places of each L1 buffer's pages; see [Config.BufferPages].
	DetailBufferPages
	// DetailDurations is how long functions and the capture took. It is on unless it is switched
	// off.
	DetailDurations
)

// With returns the details with some of them switched on or off.
func (d Details) With(some Details, on bool) Details {
	if on {
		return d | some
	}
	return d &^ some
}

// Has reports whether all of some details are on.
func (d Details) Has(some Details) bool { return d&some == some }

type details struct{ atomic.Uint32 }

func (d *details) set(some Details, on bool) {
	for {
		was := d.Load()
		if d.CompareAndSwap(was, uint32(Details(was).With(some, on))) {
			return
		}
	}
}

func (d *details) has(some Details) bool { return Details(d.Load()).Has(some) }

// Set switches details on or off, from the next event on.
func (r *Recorder) Set(some Details, on bool) { r.details.set(some, on) }

// Has reports whether all of some details are on.
func (r *Recorder) Has(some Details) bool { return r.details.has(some) }

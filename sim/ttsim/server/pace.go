package server

import "time"

// Limits of a chunk: what the server clocks before it looks for requests again. A host that polls the device gets
// short chunks, as umd's cadence of one clock after each read (umd device/tt_device/tt_sim_tt_device.cpp) would give;
// a device left alone gets chunks of about longChunk, which keep the cost of looking below a percent.
const (
	minClocks = 16
	maxClocks = 16384
	longChunk = 200 * time.Microsecond
)

// Quiet times after which the server spares the processor. A device left alone may still be computing, and a host
// that waits for its memory to change makes no accesses, so time goes on at a half and later at a quarter.
const (
	quietHalf    = 3 * time.Second
	quietQuarter = 15 * time.Second
)

// pace chooses how far time advances between requests.
type pace struct {
	clocks uint32        // the last chunk
	last   time.Duration // what it took
	quiet  time.Duration // since the last request or DMA, in time spent
	dmas   uint64
}

// next returns the clocks of the next chunk, and how long to sleep after it unless a request comes. requests is the
// number served since the last chunk, dmas the number of DMA transfers since the start.
func (p *pace) next(requests int, dmas uint64) (clocks uint32, rest time.Duration) {
	busy := requests > 0
	if busy || dmas != p.dmas {
		p.dmas, p.quiet = dmas, 0
	} else {
		p.quiet += p.last
	}
	switch {
	case busy || p.clocks == 0:
		p.clocks = minClocks
	case p.last > longChunk:
		p.clocks = max(p.clocks/2, minClocks)
	case p.last < longChunk/2:
		p.clocks = min(p.clocks*2, maxClocks)
	}
	switch {
	case p.quiet > quietQuarter:
		rest = 3 * p.last
	case p.quiet > quietHalf:
		rest = p.last
	}
	return p.clocks, rest
}

// took reports what the last chunk cost.
func (p *pace) took(d time.Duration) { p.last = d }

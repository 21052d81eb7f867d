package function

import "time"

// Limits of a chunk of clocks, of 0.1 to 10 microseconds each, between two looks at the request
// ring. A host that polls gets short chunks, at the slowest umd's cadence of one clock per read
// (umd device/tt_device/tt_sim_tt_device.cpp).
const (
	minClocks  = 1
	maxClocks  = 16384
	shortChunk = 4 * time.Microsecond
	longChunk  = 200 * time.Microsecond
)

// Quiet times after which simulated time runs at a half and a quarter, to spare the processor.
const (
	quietHalf    = 20 * time.Second
	quietQuarter = 60 * time.Second
)

type pace struct {
	clocks uint32        // the last chunk
	last   time.Duration // duration of the last chunk
	cost   time.Duration // of a clock, smoothed
	quiet  time.Duration // clocking time since the last request or DMA
	dmas   uint64
}

// next returns the clocks of the next chunk, and how long to sleep afterwards unless a request
// comes, for the requests since the last chunk and the transfers since the start.
func (p *pace) next(requests int, dmas uint64) (clocks uint32, rest time.Duration) {
	busy := requests > 0
	if busy || dmas != p.dmas {
		p.dmas, p.quiet = dmas, 0
	} else {
		p.quiet += p.last
	}
	switch {
	case p.cost == 0:
		p.clocks = minClocks
	case busy:
		p.clocks = fit(shortChunk, p.cost)
	default:
		p.clocks = min(2*p.clocks, fit(longChunk, p.cost))
	}
	switch {
	case p.quiet > quietQuarter:
		rest = 3 * p.last
	case p.quiet > quietHalf:
		rest = p.last
	}
	return p.clocks, rest
}

func fit(d, cost time.Duration) uint32 { return uint32(min(max(d/cost, minClocks), maxClocks)) }

// The cost rises slowly, since another process may have had the processor.
func (p *pace) took(d time.Duration) {
	p.last = d
	cost := max(d/time.Duration(p.clocks), 1)
	if p.cost != 0 && cost > p.cost {
		cost = p.cost + (cost-p.cost+7)/8
	}
	p.cost = cost
}

package function

import "time"

// Limits of a chunk: what the server clocks before it looks for requests again. A clock costs
// between 0.1 and 10 microseconds, depending on how many cores run, so a chunk is measured by time.
// A host that polls the device gets short chunks, at the slowest umd's cadence of one clock after
// each read (umd device/tt_device/tt_sim_tt_device.cpp); a device left alone gets long ones, which
// keep the cost of looking below a percent.
const (
	minClocks  = 1
	maxClocks  = 16384
	shortChunk = 4 * time.Microsecond
	longChunk  = 200 * time.Microsecond
)

// Quiet times after which the server spares the processor. A device left alone may still be
// computing, and a host that waits for its memory to change makes no accesses, so time goes on at a
// half and later at a quarter.
const (
	quietHalf    = 20 * time.Second
	quietQuarter = 60 * time.Second
)

// pace chooses how far time advances between requests.
type pace struct {
	clocks uint32        // the last chunk
	last   time.Duration // what it took
	cost   time.Duration // of a clock, about
	quiet  time.Duration // since the last request or DMA, in time spent
	dmas   uint64
}

// next returns the clocks of the next chunk, and how long to sleep after it unless a request comes.
// requests is the number served since the last chunk, dmas the number of DMA transfers since the
// start.
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

// fit returns how many clocks of a cost fit into a time.
func fit(d, cost time.Duration) uint32 { return uint32(min(max(d/cost, minClocks), maxClocks)) }

// took reports what the last chunk took. The cost follows slowly when it rises: another process
// that had the processor meanwhile isn't the simulation's cost.
func (p *pace) took(d time.Duration) {
	p.last = d
	cost := max(d/time.Duration(p.clocks), 1)
	if p.cost != 0 && cost > p.cost {
		cost = p.cost + (cost-p.cost+7)/8
	}
	p.cost = cost
}

package hosts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Costs are the times of hosts and of the network between them.
type Costs struct {
	Send, Receive time.Duration // processor time of a message at the sender and at the receiver
	Part          time.Duration // processor time of one host's part in a message, at each end
	Wire          time.Duration // latency from one host to another
	Late          time.Duration // hosts start an exchange at random within this time, evenly distributed
	Chip          time.Duration // processor time of a replay for each chip
	Seed          uint64        // of the random start times
}

// Estimate is the result of Simulate: the times of an exchange before a replay.
type Estimate struct {
	Exchange time.Duration // from the start of the last host to the end on the last host
	Skew     time.Duration // between the ends on the first and on the last host
	Top      time.Duration // processor time on host 0, which no other host exceeds
	Each     time.Duration // processor time of all messages, averaged over the hosts
	Replay   time.Duration // processor time of the replay on each host
	Messages int
}

// Simulate estimates an exchange of a tree of hosts, each with a number of chips, by simulating each message. A host handles one
// message at a time. The error wraps ErrConfig.
func Simulate(c Costs, size, fan, chips int) (*Estimate, error) {
	if size < 1 || size > 1<<20 || fan < 1 || fan > 1<<20 || chips < 0 || chips > 1<<20 {
		return nil, fmt.Errorf("hosts: simulate: %w: %d hosts with %d chips, fan %d: want positive numbers up to %d", ErrConfig, size, chips, fan, 1<<20)
	}
	for _, d := range []time.Duration{c.Send, c.Receive, c.Part, c.Wire, c.Late, c.Chip} {
		if d < 0 || d > time.Minute {
			return nil, fmt.Errorf("hosts: simulate: %w: a cost of %v: want 0 to a minute", ErrConfig, d)
		}
	}
	draw := rand.New(rand.NewPCG(c.Seed, 0))
	come, last := make([]time.Duration, size), time.Duration(0)
	for i := range come {
		come[i] = time.Duration(draw.Int64N(int64(c.Late) + 1))
		last = max(last, come[i])
	}
	e, busy := &Estimate{Replay: time.Duration(chips) * c.Chip}, make([]time.Duration, size)
	work := func(host, parts int, d time.Duration) time.Duration {
		d += time.Duration(parts) * c.Part
		busy[host] += d
		return d
	}
	// Upwards: a host receives messages in the order of their arrival and sends its own when it has all. Hosts with high ranks are
	// at the bottom.
	arrive := make([][]message, size)
	ready := make([]time.Duration, size)
	for r := size - 1; r >= 0; r-- {
		slices.SortFunc(arrive[r], func(a, b message) int { return int(a.at - b.at) })
		t := time.Duration(0)
		for _, m := range arrive[r] {
			t = max(t, m.at) + work(r, m.parts, c.Receive)
		}
		ready[r] = max(t, come[r])
		if r > 0 {
			n := below(r, size, fan)
			ready[r] += work(r, n, c.Send)
			arrive[parent(r, fan)] = append(arrive[parent(r, fan)], message{ready[r] + c.Wire, n})
			e.Messages++
		}
	}
	// Downwards: each host sends all parts to the hosts below, one after the other, and then continues.
	on := make([]time.Duration, size)
	on[0] = ready[0]
	for r := range size {
		for k := r*fan + 1; k <= r*fan+fan && k < size; k++ {
			on[r] += work(r, size, c.Send)
			on[k] = on[r] + c.Wire + work(k, size, c.Receive)
			e.Messages++
		}
	}
	first, end := slices.Min(on), slices.Max(on)
	e.Exchange, e.Skew, e.Top = end-last, end-first, busy[0]
	for _, b := range busy {
		e.Each += b
	}
	e.Each /= time.Duration(size)
	return e, nil
}

type message struct {
	at    time.Duration
	parts int
}

package dispatch

import (
	"sync"

	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// clock is a vector clock: by queue, the number of commands that acquire workers or let another
// queue acquire them.
type clock [memmap.MaxQueues]uint64

func (c *clock) merge(o clock) {
	for i := range c {
		c[i] = max(c[i], o[i])
	}
}

// observed is the work that the host has seen done.
type observed struct {
	mu    sync.Mutex
	clock clock
}

func (o *observed) add(c clock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clock.merge(c)
}

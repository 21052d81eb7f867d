package dispatch

import (
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/chip"
)

// workers is a set of workers and the queues that start programs on it. Which launch message the workers read next,
// and what lies in their kernel-config memory, is the workers' state: it is in the State of the queue that owns them,
// and passes from queue to queue with them.
type workers struct {
	cores  chip.Range
	shared bool // by more than one queue

	mu    sync.Mutex
	owner *Queue // that started something on them last; nil if none did

	reserved *Queue // the only one that may start something; nil if they aren't reserved
}

// workerSets gives each queue its workers: those that the options name, or the whole grid. Sets that touch are equal.
func (d *Device) workerSets() ([]*workers, error) {
	for id, r := range d.opts.Workers {
		if id < 0 || id >= d.opts.Queues {
			return nil, fmt.Errorf("workers %v are given to queue %d, but the device has %d queues: give workers to queues from 0 to %d", r, id, d.opts.Queues, d.opts.Queues-1)
		}
		if r.Empty() || !d.grid.Contains(r.Start) || !d.grid.Contains(r.End) {
			return nil, fmt.Errorf("workers %v of queue %d are not a rectangle inside the worker grid %v", r, id, d.grid)
		}
	}
	sets := make([]*workers, d.opts.Queues)
	for id := range sets {
		r, ok := d.opts.Workers[id]
		if !ok {
			r = d.grid
		}
		for other, s := range sets[:id] {
			if s.cores == r {
				sets[id], s.shared = s, true
			} else if s.cores.Overlaps(r) {
				return nil, fmt.Errorf("queue %d uses the workers %v and queue %d the workers %v, which overlap: give every queue its workers, equal or apart; a queue without any uses the whole grid %v", other, s.cores, id, r, d.grid)
			}
		}
		if sets[id] == nil {
			sets[id] = &workers{cores: r}
		}
	}
	return sets, nil
}

// WorkersError is returned for a program that uses workers which its queue doesn't start.
type WorkersError struct {
	Queue   int
	Workers chip.Range // of the queue
	Program string
	Cores   chip.Range // the smallest rectangle with all cores of the program
}

// Error implements error.
func (e *WorkersError) Error() string {
	return fmt.Sprintf("dispatch: queue %d: program %q uses cores of %v, the queue starts the workers %v: use another queue, or give the queue other workers when the device is opened", e.Queue, e.Program, e.Cores, e.Workers)
}

// Workers returns the logical cores that programs of the queue may use.
func (q *Queue) Workers() chip.Range { return q.set.cores }

// Fits returns a *WorkersError unless the queue starts all cores that a program uses.
func (q *Queue) Fits(im *Image) error {
	if q.set.cores.Contains(im.bounds.Start) && q.set.cores.Contains(im.bounds.End) {
		return nil
	}
	return &WorkersError{Queue: q.id, Workers: q.set.cores, Program: im.name, Cores: im.bounds}
}

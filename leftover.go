package reprise

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// leftovers are what calls have left that failed, mostly because their context ended, while queues may still write to their
// memory or run what lies there. It is given back once the host has waited for those queues.
type leftovers struct {
	some atomic.Bool // list isn't empty
	mu   sync.Mutex
	list []leftover
}

type leftover struct {
	behind []waitFor
	free   func() error
}

// waitFor is a wait of the host for a queue, by number.
type waitFor struct {
	q *Queue
	n uint64
}

// freeBehind calls free when the queues are done with what is in them now: at once if that can be waited for, otherwise when
// somebody has.
func (d *Device) freeBehind(ctx context.Context, free func() error, qs ...*Queue) error {
	for _, q := range qs {
		if q.await(ctx) != nil { // what has kept the call from its end keeps this from it too
			d.leave(free, qs)
			return nil
		}
	}
	return free()
}

func (d *Device) leave(free func() error, qs []*Queue) {
	l := leftover{free: free}
	for _, q := range qs {
		l.behind = append(l.behind, waitFor{q, q.begun.Load() + 1})
	}
	d.left.mu.Lock()
	defer d.left.mu.Unlock()
	d.left.list = append(d.left.list, l)
	d.left.some.Store(true)
}

// freeLeft frees what no queue uses any more, or everything if the queues have lost what was in them.
func (d *Device) freeLeft(all bool) error {
	if !d.left.some.Load() {
		return nil
	}
	var due []leftover
	d.left.mu.Lock()
	d.left.list = slices.DeleteFunc(d.left.list, func(l leftover) bool {
		waited := all || !slices.ContainsFunc(l.behind, func(w waitFor) bool { return w.q.finished.Load() < w.n })
		if waited {
			due = append(due, l)
		}
		return waited
	})
	d.left.some.Store(len(d.left.list) > 0)
	d.left.mu.Unlock()
	var errs []error
	for _, l := range due {
		errs = append(errs, l.free())
	}
	return errors.Join(errs...)
}

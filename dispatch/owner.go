package dispatch

import (
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/chip"
)

// workers' next launch message and kernel-config memory are in the State of their owner.
type workers struct {
	*workerSet

	mu       sync.Mutex
	owner    *Queue
	work     work   // its last operation
	reserved *Queue // the only one that may start something, if not nil
}

// ordering is guarded by Queue.mu.
type ordering struct {
	pos    uint64
	vclock clock
}

func (q *Queue) nowLocked() clock {
	seen := &q.d.seen
	seen.mu.Lock()
	defer seen.mu.Unlock()
	q.order.vclock.merge(seen.clock)
	return q.order.vclock
}

func (q *Queue) tickLocked() clock {
	q.order.pos++
	c := q.nowLocked()
	c[q.id] = q.order.pos
	return c
}

const (
	opRun    = "run program"
	opReplay = "replay trace"
	opDivide = "divide the workers by"
	opState  = "set the state after raw commands of"
)

var opRaw = "raw commands"

// OverlapError is returned when a queue would start workers that another queue may still be using,
// because nothing orders the two.
type OverlapError struct {
	Queue int // that was refused
	Op    string
	Site  string // file:line of the call; empty if unknown
	Owner int
	Last  string
}

func (e *OverlapError) Error() string {
	at := ""
	if e.Site != "" {
		at = " at " + e.Site
	}
	return fmt.Sprintf("dispatch: queue %d: %s%s: queue %d has put %s on the same workers, and nothing orders the two: record an event on queue %d after it and wait for it on queue %d, or wait for queue %d first",
		e.Queue, e.Op, at, e.Owner, e.Last, e.Owner, e.Queue, e.Owner)
}

// acquireLocked makes the queue the owner of lanes that it shares. The other queue's last work
// there must be ordered before the queue's next command, by events or because the host has seen it
// done; otherwise the error is an *OverlapError.
func (q *Queue) acquireLocked(g lanes, op string, name *string) error {
	q.stream.taken = 0
	for i := range q.stream.lanes {
		if !g.has(i) {
			continue
		}
		if err := q.acquireLaneLocked(i, op, name); err != nil {
			q.rollbackLocked()
			return err
		}
		q.stream.taken |= 1 << i
	}
	return nil
}

func (q *Queue) acquireLaneLocked(i int, op string, name *string) error {
	l := &q.stream.lanes[i]
	s := l.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved != nil && s.reserved != q {
		return q.errorf("%s %q: %w", op, *name, ErrReserved)
	}
	if o := s.owner; o != nil && o != q {
		if known := q.nowLocked(); s.work.at > known[o.id] {
			return &OverlapError{Queue: q.id, Op: fmt.Sprintf("%s %q", op, *name), Owner: o.id,
				Last: fmt.Sprintf("%s %q", s.work.op, *s.work.name)}
		}
		// The state of o's lane can't change: another run on o would have counted a position that
		// isn't known here.
		q.d.programs.TakeOver(&l.state, &o.stream.lanes[i].state)
		q.stream.lastPrepared = nil
	}
	l.prev = prevOwner{s.owner, s.work}
	q.order.pos++
	s.owner, s.work = q, work{at: q.order.pos, op: op, name: name}
	return nil
}

// rollbackLocked undoes the last acquireLocked, with mu held since, if nothing got into the queue.
func (q *Queue) rollbackLocked() {
	if !q.shared || q.status.failed.Load() != nil {
		return
	}
	for i := range q.stream.lanes {
		if l := &q.stream.lanes[i]; q.stream.taken.has(i) {
			l.set.mu.Lock()
			l.set.owner, l.set.work = l.prev.owner, l.prev.work
			l.set.mu.Unlock()
		}
	}
	q.stream.taken = 0
}

type prevOwner struct {
	owner *Queue
	work  work
}

type work struct {
	at   uint64
	op   string
	name *string
}

func (q *Queue) forceAcquireLocked() {
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	q.order.pos++
	q.set.owner, q.set.work = q, work{at: q.order.pos, op: opState, name: &opRaw}
}

// resetOwnerLocked releases the queue's workers after a restart, with its commands counted as done.
func (q *Queue) resetOwnerLocked() {
	var done clock
	done[q.id] = q.order.pos
	q.d.seen.add(done)
	for i := range q.stream.lanes {
		s := q.stream.lanes[i].set
		s.mu.Lock()
		if s.owner == q {
			s.owner = nil
		}
		s.mu.Unlock()
	}
}

// WorkersError: a program uses workers that its queue doesn't start.
type WorkersError struct {
	Queue   int
	Workers chip.Range // of the queue
	Program string
	Cores   chip.Range
}

func (e *WorkersError) Error() string {
	return fmt.Sprintf("dispatch: queue %d: program %q uses cores of %v, the queue starts the workers %v: use another queue, or give the queue other workers when the device is opened", e.Queue, e.Program, e.Cores, e.Workers)
}

// Workers returns the logical cores that programs of the queue may use.
func (q *Queue) Workers() chip.Range { return q.set.cores }

func (q *Queue) fits(im *Image) error {
	if q.set.cores.Contains(im.Bounds().Start) && q.set.cores.Contains(im.Bounds().End) {
		return nil
	}
	return &WorkersError{Queue: q.id, Workers: q.set.cores, Program: im.Name(), Cores: im.Bounds()}
}

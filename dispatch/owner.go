package dispatch

import (
	"fmt"
	"sync"
)

// clock says of every queue up to which position its commands are ordered before something: a vector clock. A queue
// counts a position for what may hand workers on or take them over.
type clock [maxQueues]uint64

func (c *clock) merge(o clock) {
	for i := range c {
		c[i] = max(c[i], o[i])
	}
}

// ordering is what a queue's commands are ordered after, and what they have put on shared workers. Guarded by Queue.mu.
type ordering struct {
	pos       uint64 // positions counted
	vclock    clock  // what the commands so far are ordered after
	work      work   // put on shared workers last; guarded by workers.mu as well
	prevOwner prevOwner
}

// observed is what the host has seen done: whatever is submitted afterwards, by anybody, comes behind it.
type observed struct {
	mu    sync.Mutex
	clock clock
}

func (o *observed) add(c clock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clock.merge(c)
}

// now is what the next command of the queue is ordered behind. Called with mu held.
func (q *Queue) now() clock {
	seen := &q.d.seen
	seen.mu.Lock()
	defer seen.mu.Unlock()
	q.order.vclock.merge(seen.clock)
	return q.order.vclock
}

// tick counts a position, and returns what is ordered before whatever is ordered behind it. Called with mu held.
func (q *Queue) tick() clock {
	q.order.pos++
	c := q.now()
	c[q.id] = q.order.pos
	return c
}

// Names of what takes workers over, for errors.
const (
	opRun    = "run program"
	opReplay = "replay trace"
	opState  = "set the state behind raw commands of"
)

// OverlapError is returned when a queue would start workers that another queue may still be using, because nothing
// orders the two.
type OverlapError struct {
	Queue int    // that was refused
	Op    string // what it was asked for: run program "dense"
	Site  string // file:line of the call, if known
	Owner int    // queue that has the workers
	Last  string // what it put on them last
}

// Error implements error.
func (e *OverlapError) Error() string {
	at := ""
	if e.Site != "" {
		at = " at " + e.Site
	}
	return fmt.Sprintf("dispatch: queue %d: %s%s: queue %d has put %s on the same workers, and nothing orders the two: record an event on queue %d behind it and wait for it on queue %d, or finish queue %d first",
		e.Queue, e.Op, at, e.Owner, e.Last, e.Owner, e.Queue, e.Owner)
}

// acquire makes the queue the owner of its workers, which it shares with other queues. Another queue's last program or
// replay must be ordered before the queue's next command: by an event, directly or through further queues, or because
// the host has seen it done. Then nothing of it is left behind that edge, and all kernel-config memory is free. Called
// with mu held.
func (q *Queue) acquire(op string, name *string) error {
	s := q.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved != nil && s.reserved != q {
		return fmt.Errorf("dispatch: queue %d: %s %q: %w", q.id, op, *name, ErrReserved)
	}
	if o := s.owner; o != nil && o != q {
		if known := q.now(); o.order.work.at > known[o.id] {
			return &OverlapError{Queue: q.id, Op: fmt.Sprintf("%s %q", op, *name), Owner: o.id, Last: fmt.Sprintf("%s %q", o.order.work.op, *o.order.work.name)}
		}
		// Nobody changes o.stream.state: who has it would have taken a position that isn't known here.
		q.stream.state.launch = o.stream.state.launch
		q.stream.state.config = configRing{size: q.d.pr.L1.KernelConfigSize}
		q.stream.lastPrepared = nil
	}
	q.order.prevOwner.owner, q.order.prevOwner.work = s.owner, q.order.work
	s.owner = q
	q.order.pos++
	q.order.work = work{at: q.order.pos, op: op, name: name}
	return nil
}

// rollback undoes the last acquire, when what the workers were for hasn't got into the queue, not even in part. Called with mu
// held, as long as acquire's caller had it.
func (q *Queue) rollback() {
	if !q.shared || q.status.failed.Load() != nil {
		return
	}
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	q.set.owner, q.order.work = q.order.prevOwner.owner, q.order.prevOwner.work
}

// prevOwner is who had workers before a queue took them over, and what that queue had put on them itself.
type prevOwner struct {
	owner *Queue
	work  work
}

// work is what a queue has put on workers that it shares.
type work struct {
	at   uint64 // its position
	op   string
	name *string
}

// forceAcquire makes the queue the owner of its workers without asking.
func (q *Queue) forceAcquire() {
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	q.set.owner = q
	q.order.pos++
	q.order.work = work{at: q.order.pos, op: opState, name: &opRaw}
}

// resetOwner takes the queue's commands so far for done, and gives its workers up: it was started anew. Called with mu
// held.
func (q *Queue) resetOwner() {
	var done clock
	done[q.id] = q.order.pos
	q.d.seen.add(done)
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	if q.set.owner == q {
		q.set.owner = nil
	}
}

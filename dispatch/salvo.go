package dispatch

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Salvo is prepared commands for queues of several devices that are submitted so that the devices start together: first
// the commands of all are put into the issue rings, then the entries that announce them are written, one store for each
// queue and nothing in between.
type Salvo struct {
	parts []salvoPart
	locks []*Queue // of the parts, in the order in which they are locked
	errs  []error  // by part, of the last Submit
}

type salvoPart struct {
	q    *Queue
	p    *Prepared
	off  uint32
	took bool // the workers that the queue shares, by prepare
}

// ErrUnsent is why a queue has nothing of a Salvo although nothing is wrong with it.
var ErrUnsent = errors.New("not sent, because another queue couldn't take its part")

// NewSalvo joins prepared commands, ps[i] for qs[i]. No queue may be named twice.
func NewSalvo(qs []*Queue, ps []*Prepared) *Salvo {
	s := &Salvo{errs: make([]error, len(qs))}
	for i, q := range qs {
		s.parts = append(s.parts, salvoPart{q: q, p: ps[i]})
	}
	s.locks = slices.SortedFunc(slices.Values(qs), (*Queue).Compare)
	return s
}

// Submit sends the commands. When a queue can't take its part, none gets one, which ErrUnsent says of the others; when a
// device stops in the middle, the others have theirs. The errors are those of each part in order, nil if there are none;
// they are good until the next Submit. It allocates nothing. Only one goroutine at a time may submit a Salvo.
func (s *Salvo) Submit(ctx context.Context) []error {
	before := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(before)
	failed := false
	for _, q := range s.locks {
		q.mu.Lock()
	}
	for i := range s.parts {
		s.errs[i] = s.parts[i].prepare(ctx)
		failed = failed || s.errs[i] != nil
	}
	if failed {
		for i := range s.parts {
			if s.parts[i].took {
				s.parts[i].q.rollbackLocked()
			}
			if s.errs[i] == nil {
				s.errs[i] = ErrUnsent
			}
		}
	} else {
		for i := range s.parts {
			s.errs[i] = s.parts[i].put()
			failed = failed || s.errs[i] != nil
		}
		for i := range s.parts {
			if s.errs[i] == nil {
				s.errs[i] = s.parts[i].announce()
				failed = failed || s.errs[i] != nil
			}
		}
	}
	for _, q := range s.locks {
		q.mu.Unlock()
	}
	if !failed {
		return nil
	}
	return s.errs
}

// prepare makes sure that the queue takes the commands and has room for them, and changes nothing but who has workers that
// queues share.
func (p *salvoPart) prepare(ctx context.Context) (err error) {
	q := p.q
	p.took = false
	defer q.recoverLostLocked(&err)
	if q.status.failed.Load() != nil || p.p.revoked || q.stream.reserved != nil || q.shared {
		if err := q.submittableLocked(p.p, nil); err != nil {
			return err
		}
		p.took = true
	}
	p.off, err = q.roomLocked(ctx, uint32(len(p.p.Bytes)))
	return err
}

// put puts the commands into the issue ring.
func (p *salvoPart) put() (err error) {
	q := p.q
	defer q.recoverLostLocked(&err)
	p.p.count(q.stream.state.Expected)
	n := uint32(len(p.p.Bytes))
	copy(q.rings.issue.mem[p.off:], p.p.Bytes)
	q.rings.issue.wr = p.off + n
	*q.rings.issue.end(q.rings.fetch.put) = p.off + n
	return nil
}

// announce tells the prefetcher.
func (p *salvoPart) announce() (err error) {
	q := p.q
	defer q.recoverLostLocked(&err)
	q.tiles.prefetchL1.Publish() // as in ring
	q.rings.fetch.push(cq.FetchEntry(uint32(len(p.p.Bytes))/cq.FetchUnit) | cq.FetchStall)
	q.rings.issue.prefetch()
	if q.stream.lastPrepared != p.p {
		q.history.last.Store(&p.p.Name)
		q.history.replayed.Store(p.p)
		q.stream.state, q.stream.lastPrepared = p.p.After, p.p
	}
	return nil
}

package dispatch

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// A trace may have parts on several queues, with edges between the parts. Ids of events can't be used for these edges:
// what lies in DRAM is the same at every replay. So there are words of their own, spanWord, on every dispatch core one for
// each queue that records; package tracebuf knows the commands. The words start from 0 at every replay:
//
//   - A part ends by waiting until all recordings of the other parts have arrived, and then clears its own core's words.
//     No recording of this replay is on its way to them any more, because each recording waits until the writes before it
//     have arrived.
//   - Behind each part an event is recorded, once the clearing has arrived, and the next replay's parts begin with a wait
//     for the other queues' events ([Span.Submit]). So no recording of the next replay arrives before the word is clear.
//
// Both parts are put into their queues in one step, with both queues locked. So nothing that waits for one part can stand
// in front of another, and the edges inside go from what was recorded earlier to what was recorded later: no circle.

// SpanWord returns where the dispatch cores count the recordings of the queue's part of a trace over several queues: an
// address in their L1, a multiple of 16.
func (q *Queue) SpanWord() uint32 { return q.d.ctl.spanWord[q.id] }

// Span is prepared commands for several queues that are submitted as one.
type Span struct {
	parts []spanPart // by queue
}

type spanPart struct {
	q     *Queue
	p     *Prepared
	waits []spanWait
}

type spanWait struct {
	peer *Queue
	at   int // offset in Prepared.Bytes of the id to wait for
}

// NewSpan joins prepared commands, one for each queue by its number, which it changes: each begins with a wait for the
// other queues' parts before.
func (d *Device) NewSpan(parts map[int]*Prepared) (*Span, error) {
	s := &Span{}
	for id, q := range d.queues {
		p := parts[id]
		if p == nil {
			continue
		}
		part := spanPart{q: q, p: p}
		b := cq.NewBuilder(d.layout(), nil)
		for peer := range d.queues {
			if peer != id && parts[peer] != nil {
				at := b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: d.ctl.lastEvent[peer]})
				part.waits = append(part.waits, spanWait{peer: d.queues[peer], at: at + cq.AtWaitCount})
			}
		}
		prefix, err := b.Finish()
		if err != nil {
			return nil, fmt.Errorf("dispatch: join %s: %w", p.Name, err)
		}
		p.Bytes = append(prefix, p.Bytes...)
		for i := range p.Counts {
			p.Counts[i].At += len(prefix)
		}
		s.parts = append(s.parts, part)
	}
	return s, nil
}

// Submit sends the commands of all parts. Either all are sent or none. It allocates nothing.
func (s *Span) Submit(ctx context.Context) error { return s.lock(ctx, 0, nil) }

// SubmitReserved is Submit for queues that are reserved, by these reservations.
func (s *Span) SubmitReserved(ctx context.Context, rs []*Reservation) error {
	return s.lock(ctx, 0, rs)
}

// lock takes the queues in the order of their numbers.
func (s *Span) lock(ctx context.Context, i int, rs []*Reservation) (err error) {
	if i == len(s.parts) {
		return s.submit(ctx, rs)
	}
	q := s.parts[i].q
	q.mu.Lock()
	defer q.leave(&err, debug.SetPanicOnFault(true))
	return s.lock(ctx, i+1, rs)
}

func (s *Span) submit(ctx context.Context, rs []*Reservation) error {
	for _, part := range s.parts {
		q := part.q
		if q.stream.reserved == nil || !slices.Contains(rs, q.stream.reserved) {
			if err := q.submittableLocked(part.p, nil); err != nil {
				return err
			}
			continue
		}
		if err := q.usable(opReplay); err != nil {
			return err
		}
		if q.shared {
			if err := q.acquireLocked(opReplay, &part.p.Name); err != nil {
				return err
			}
		}
	}
	for _, part := range s.parts {
		// None yet since the queue was started, or so long ago that the ids' difference could wrap.
		if q := part.q; q.stream.end.start != q.status.starts.Load() || uint32(q.stream.event-q.stream.end.id) >= 1<<30 {
			if err := q.recordEndLocked(ctx); err != nil {
				return err
			}
		}
	}
	for _, part := range s.parts {
		for _, w := range part.waits {
			cq.Put32(part.p.Bytes, w.at, uint32(w.peer.stream.end.id))
		}
		if _, err := part.q.roomLocked(ctx, uint32(len(part.p.Bytes))); err != nil {
			return err
		}
	}
	// There is room for all of them: from here on only a device that stops can fail, and the caller's context can't cut
	// the parts apart.
	ctx = context.Background()
	for _, part := range s.parts {
		if err := part.q.submitLocked(ctx, part.p); err != nil {
			return s.cut(err)
		}
		part.q.stream.waits++
	}
	for _, part := range s.parts {
		if err := part.q.recordEndLocked(ctx); err != nil {
			return s.cut(err)
		}
	}
	return nil
}

// cut closes the queues: some have a part that waits for what others will never get.
func (s *Span) cut(err error) error {
	for _, part := range s.parts {
		_ = part.q.fail(err)
	}
	return err
}

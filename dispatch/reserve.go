package dispatch

import (
	"context"
	"errors"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// ErrReserved is returned for programs and replays while the queue is reserved.
var ErrReserved = errors.New("the queue is reserved: a trace is being stepped through or checked")

// maxRelay exceeds the bytes of any relay.
const maxRelay = 1024

// Reservation keeps a queue, and others with the same workers, from running anything but
// submissions through the reservation, so that programs can be sent piece by piece. Transfers and
// waits go on.
type Reservation struct{ q *Queue }

// Reserve returns ErrReserved if the queue's workers are reserved already.
func (q *Queue) Reserve() (*Reservation, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.d.subs != nil {
		return nil, q.errorf("%w", ErrSubDevices)
	}
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	if q.set.reserved != nil {
		return nil, q.errorf("%w", ErrReserved)
	}
	q.stream.reserved, q.set.reserved = &Reservation{q}, q
	return q.stream.reserved, nil
}

// Release ends the reservation.
func (r *Reservation) Release() {
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	if r.q.stream.reserved == r {
		r.q.stream.reserved = nil
		r.q.set.mu.Lock()
		r.q.set.reserved = nil
		r.q.set.mu.Unlock()
	}
}

// Starts is [Queue.Starts].
func (r *Reservation) Starts() uint64 { return r.q.Starts() }

func (r *Reservation) with(op string, name *string, f func(q *Queue) error) (err error) {
	q := r.q
	defer q.leave(&err, q.enter())
	if err := q.usable(op); err != nil {
		return err
	}
	if q.stream.reserved != r {
		return q.errorf("%s: the reservation has ended", op)
	}
	if q.shared {
		if err := q.acquireLocked(1, op, name); err != nil {
			return err
		}
	}
	if err := f(q); err != nil {
		q.rollbackLocked()
		return err
	}
	return nil
}

// RunAgain runs a program with the runtime arguments of an earlier recording: run are its commands,
// v is how they were encoded. reads are the commands before it that name the arguments which the
// device reads.
func (r *Reservation) RunAgain(ctx context.Context, im *Image, reads, run []byte, v Variant) error {
	return r.with(opRun, im.Label(), func(q *Queue) (err error) {
		st := q.stream.lanes[0].state
		if q.stream.buf, _, err = im.AppendAgain(append(q.stream.buf[:0], reads...), run, v, &st, q.dispatcher, q.stream.runs); err != nil {
			return err
		}
		if err := q.sendPiecesLocked(ctx, q.stream.buf, im.Name()); err != nil {
			return err
		}
		q.history.last.Store(im.Label())
		q.stream.lanes[0].state, q.stream.lastPrepared = st, nil
		q.stream.runs++
		return nil
	})
}

// Commands sends raw commands, such as a part of a trace. after is the queue's state after them.
// The words at counts are set to the queue's completion count plus Add.
func (r *Reservation) Commands(ctx context.Context, name string, cmds []byte, counts []CountPatch, after Detached) error {
	return r.with(opReplay, &name, func(q *Queue) error {
		q.stream.buf = append(q.stream.buf[:0], cmds...)
		for _, c := range counts {
			cq.Put32(q.stream.buf, c.At, uint32(q.stream.lanes[0].state.Expected+c.Add))
		}
		q.history.last.Store(&name)
		if err := q.sendPiecesLocked(ctx, q.stream.buf, name); err != nil {
			return err
		}
		q.stream.lanes[0].state, q.stream.lastPrepared = q.d.programs.After(after), nil
		return nil
	})
}

func (q *Queue) sendPiecesLocked(ctx context.Context, cmds []byte, name string) error {
	start, end := 0, 0
	q.stream.ends = q.stream.ends[:0]
	noFlush := false
	for e, err := range cq.All(q.d.layout(), cmds) {
		if err != nil {
			return q.errorf("%s: %w", name, err)
		}
		next := e.Offset + len(e.Raw)
		_, header := e.Command.(cq.RelayInlineNoFlush)
		limit := start + memmap.MaxCommandSize
		if header {
			limit -= maxRelay
		}
		if next > limit && !noFlush && end > start {
			q.stream.ends = append(q.stream.ends, end)
			start = end
		}
		end, noFlush = next, header
	}
	if end == 0 {
		return nil
	}
	if end > start {
		q.stream.ends = append(q.stream.ends, end)
	}
	return q.sendBatchesLocked(ctx, name, cmds, q.stream.ends)
}

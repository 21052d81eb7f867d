package reprise

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

// controlLog implements debug.ControlLog.
type controlLog struct {
	q       *Queue
	ext     allocator.Extent
	entries uint32
	starts  uint64 // of the queue, when the log began
}

var errSecondLog = fmt.Errorf("the queue has a log already: stop it first: %w", ErrReserved)

// LogControl implements debug.Trace.
func (d debugTrace) LogControl(part, entries int) (debug.ControlLog, error) {
	q := d.t.parts[part].q
	l, err := q.logControl(entries)
	if err != nil {
		return nil, q.d.opError(fmt.Sprintf("log the control flow of queue %d", q.ID()), err)
	}
	return l, nil
}

func (q *Queue) logControl(entries int) (_ *controlLog, err error) {
	if entries <= 0 || entries > math.MaxInt32/cq.TurnSize {
		return nil, fmt.Errorf("a log of %d entries: want 1 to %d", entries, math.MaxInt32/cq.TurnSize)
	}
	if err := q.q.ControlFlow(); err != nil {
		return nil, err
	}
	l := &controlLog{q: q, entries: uint32(entries), starts: q.q.Starts()}
	if !q.log.CompareAndSwap(nil, l) {
		return nil, errSecondLog
	}
	defer func() {
		if err != nil {
			q.log.Store(nil)
		}
	}()
	// In one page, so that it lies in one bank.
	size := uint64(entries) * cq.TurnSize
	if l.ext, err = q.d.mem.Allocate(allocator.Request{
		Kind: allocator.DRAM, Size: size, PageSize: size, Owner: "log of control flow", Tag: "control", Site: userPC(),
	}); err != nil {
		return nil, err
	}
	if err := q.q.LogControl(l.ext.Addr, l.entries); err != nil {
		return nil, errors.Join(err, q.d.mem.Free(l.ext))
	}
	return l, nil
}

// Stop implements debug.ControlLog.
func (l *controlLog) Stop(ctx context.Context) (log []cq.TurnEntry, dropped int, err error) {
	log, dropped, err = l.stop(ctx)
	if err != nil {
		err = l.q.d.opError(fmt.Sprintf("read the log of control flow of queue %d", l.q.ID()), err)
	}
	return log, dropped, err
}

func (l *controlLog) stop(ctx context.Context) (log []cq.TurnEntry, dropped int, err error) {
	q := l.q
	if q.log.Load() != l {
		return nil, 0, errors.New("it was stopped before")
	}
	if err := q.q.LogControl(0, 0); err != nil {
		return nil, 0, err
	}
	if err := q.await(ctx); err != nil {
		return nil, 0, err // a queue that hangs may still write there
	}
	if q.q.Starts() == l.starts { // what was there before is forgotten
		log, dropped, err = q.q.ReadControlLog(l.ext.Addr, l.entries)
	}
	q.log.Store(nil)
	return log, dropped, errors.Join(err, q.d.mem.Free(l.ext))
}

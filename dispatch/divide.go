package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// LoadSubDevices divides the workers; nil undoes that. It waits for everything in the queues, which
// must have equal workers, all of them, and this runtime's firmware. Prepared commands run only
// with the sub-devices that they were made with.
func (d *Device) LoadSubDevices(ctx context.Context, s *SubDevices) (err error) {
	switch {
	case d.opts.QueueFirmware != nil:
		return fmt.Errorf("dispatch: load sub-devices: %w", ErrQueueFirmware)
	case d.sets[0].cores != d.grid || slices.ContainsFunc(d.sets, func(o *workerSet) bool { return o != d.sets[0] }):
		return errors.New("dispatch: load sub-devices: the queues have workers of their own: open the device without WithQueueWorkers")
	}
	for _, q := range d.queues {
		if err := q.WaitAll(ctx); err != nil {
			return err
		}
	}
	if err := d.divide(ctx, s); err != nil {
		return err
	}
	return d.queues[0].WaitAll(ctx)
}

func (d *Device) divide(ctx context.Context, s *SubDevices) error {
	for _, q := range d.queues {
		q.mu.Lock()
		defer q.mu.Unlock()
	}
	for _, q := range d.queues {
		if err := q.usable("load sub-devices"); err != nil {
			return err
		}
		if q.set.reserved != nil || q.stream.reserved != nil {
			return q.errorf("load sub-devices: %w", ErrReserved)
		}
		if err := q.idleLocked(); err != nil {
			return err
		}
	}
	d.subs = s
	var sets []*workers
	if s != nil {
		for range s.sets {
			sets = append(sets, &workers{workerSet: d.sets[0]})
		}
	}
	if err := d.selectGoMessages(); err != nil {
		return err
	}
	for _, q := range d.queues {
		q.divided = sets
		q.newLanesLocked()
	}
	first := d.queues[0]
	if first.shared { // other queues come after the reset
		if err := first.acquireLocked(first.allLocked(), opDivide, &opRaw); err != nil {
			return err
		}
	}
	return first.resetLaunchLocked(ctx)
}

// idleLocked returns an error if another goroutine has put a program into the queue since a wait.
func (q *Queue) idleLocked() error {
	for i := range q.stream.lanes {
		l := &q.stream.lanes[i]
		reg := q.d.pr.Stream.Reg(q.d.pr.Stream.FirstDispatch+int(l.Sub), chip.SpaceAvailable)
		n, err := q.d.kd.Read32(q.dispatcher.At, uint64(reg))
		if err != nil {
			return err
		}
		if (n-uint32(l.state.Expected))&cq.CountMask != 0 {
			return q.errorf("load sub-devices: programs are being put into the queue meanwhile")
		}
	}
	return nil
}

// resetLaunchLocked has the workers of all lanes begin with the first launch message.
func (q *Queue) resetLaunchLocked(ctx context.Context) error {
	b := q.builderLocked()
	for i := range q.stream.lanes {
		l := &q.stream.lanes[i]
		b.NotifySubordinate(cq.NotifySubordinate{Mask: 1 << l.Sub})
		b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: l.GoWord(cq.SignalReplayTrace), Multicast: l.Sub,
			WaitCount: uint32(l.state.Expected), WaitStream: uint32(q.d.pr.Stream.FirstDispatch) + uint32(l.Sub)})
		l.state.Expected += cq.Count(l.Workers)
	}
	// Before the next launch message: a worker that finds one doesn't look for a reset any more.
	q.waitLocked(&b, q.allLocked(), func(w cq.Wait) { b.Wait(cq.Master, w) })
	return q.sendBuiltLocked(ctx, "load sub-devices", &b)
}

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// SubDeviceError: a program, trace or wait needs other sub-devices than are loaded.
type SubDeviceError struct {
	Op   string // such as run program "dense"
	Need string
}

// ErrSubDevices: it isn't possible with sub-devices.
var ErrSubDevices = errors.New("not possible with sub-devices: clear them before")

func (e *SubDeviceError) Error() string { return fmt.Sprintf("dispatch: %s: %s", e.Op, e.Need) }

// lane is a set of workers that a queue starts and waits for on their own: a sub-device, or without
// sub-devices all workers of the queue.
type lane struct {
	Dispatcher
	state State
	set   *workers
	prev  prevOwner // of set, for rollbackLocked
}

// lanes of a group are a bit each, the first one bit 0.
type lanes uint8

func (g lanes) has(i int) bool { return g>>i&1 != 0 }

func (g lanes) count() int { return bits.OnesCount8(uint8(g)) }

// allLocked are the queue's lanes.
func (q *Queue) allLocked() lanes { return 1<<len(q.stream.lanes) - 1 }

// groupLocked is which lanes transfers and events wait for; subs, if not empty, chooses others.
func (q *Queue) groupLocked(op string, subs []int) (lanes, error) {
	if len(subs) == 0 {
		return q.stream.stall, nil
	}
	var g lanes
	for _, i := range subs {
		if i < 0 || i >= len(q.stream.lanes) {
			return 0, &SubDeviceError{op, fmt.Sprintf("there is no sub-device %d: %d are loaded", i, len(q.stream.lanes))}
		}
		g |= 1 << i
	}
	return g, nil
}

// SetStallGroup chooses the sub-devices whose programs later transfers, waits and events of the
// queue wait for; none are all of them.
func (q *Queue) SetStallGroup(subs ...int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	g, err := q.groupLocked("set the stall group", subs)
	if len(subs) == 0 {
		g = q.allLocked()
	}
	if err == nil {
		q.stream.stall = g
	}
	return err
}

// StallsAll reports whether the stall group is all sub-devices.
func (q *Queue) StallsAll() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stream.stall == q.allLocked()
}

// SubDevices returns the division that is loaded; nil without one.
func (q *Queue) SubDevices() *SubDevices { return q.division.Load() }

// Home returns which workers start a program with a division, and to whom they report. The error is
// a *WorkersError if the queue doesn't start all its cores, or a *SubDeviceError if they are not in
// one sub-device or another division is loaded.
func (q *Queue) Home(im *Image, s *SubDevices) (Dispatcher, error) {
	if s == nil && q.division.Load() == nil {
		return q.dispatcher, q.fits(im)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if s != q.d.subs {
		return Dispatcher{}, &SubDeviceError{fmt.Sprintf("program %q", im.Name()), "other sub-devices were loaded meanwhile"}
	}
	l, err := q.homeLocked(im)
	if err != nil {
		return Dispatcher{}, err
	}
	return l.Dispatcher, nil
}

func (q *Queue) homeLocked(im *Image) (*lane, error) {
	if q.d.subs == nil {
		return &q.stream.lanes[0], q.fits(im)
	}
	sub, known := im.Home(q.d.subs)
	if !known {
		cores := im.Placement()
		at, ok := q.d.subs.of[cores[0]]
		for _, c := range cores {
			if o, in := q.d.subs.of[c]; !in || o != at {
				ok = false
			}
		}
		if !ok {
			return nil, &SubDeviceError{fmt.Sprintf("program %q", im.Name()),
				fmt.Sprintf("its cores %v are not all in one sub-device", im.Bounds())}
		}
		sub = at
		im.SetHome(q.d.subs, sub)
	}
	return &q.stream.lanes[sub], nil
}

// waitLocked makes the dispatcher wait for the programs so far of a group of lanes, with more flags
// at the last wait.
func (q *Queue) waitLocked(b *cq.Builder, g lanes, last func(cq.Wait)) {
	for i := range q.stream.lanes {
		if !g.has(i) {
			continue
		}
		l := &q.stream.lanes[i]
		w := cq.Wait{Flags: cq.WaitStream, Stream: uint16(q.d.pr.Stream.FirstDispatch) + uint16(l.Sub), Count: uint32(l.state.Expected)}
		if g >>= i + 1; g == 0 {
			last(w)
			return
		}
		g <<= i + 1
		b.Wait(cq.Master, w)
	}
}

// newLanesLocked makes the queue's lanes after the workers' launch pointers were reset and all
// programs are done. All completion streams are cleared.
func (q *Queue) newLanesLocked() {
	sets := q.divided
	if q.d.subs == nil {
		sets = []*workers{q.set}
	}
	if q.stream.lanes = q.stream.one[:]; len(sets) > 1 {
		q.stream.lanes = make([]lane, len(sets))
	}
	for i, set := range sets {
		l := &q.stream.lanes[i]
		*l = lane{Dispatcher: q.dispatcher, state: q.d.programs.ReplayState(), set: set}
		if q.d.subs != nil {
			l.Sub, l.Workers = uint8(i), q.d.subs.n[i]
		}
	}
	q.stream.subs = q.d.subs
	q.division.Store(q.d.subs)
	q.stream.stall, q.stream.lastPrepared, q.stream.taken = q.allLocked(), nil, 0
}

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
	if err := d.selectGoMessages(ctx); err != nil {
		return err
	}
	for _, q := range d.queues {
		if err := q.clearCountsLocked(ctx); err != nil {
			return err
		}
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

// clearCountsLocked clears the streams of all lanes, because traces rely on it for branches.
func (q *Queue) clearCountsLocked(ctx context.Context) error {
	b := q.builderLocked()
	for i := range q.stream.lanes {
		l := &q.stream.lanes[i]
		b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream | cq.ClearStream,
			Stream: uint16(q.d.pr.Stream.FirstDispatch) + uint16(l.Sub), Count: uint32(l.state.Expected)})
	}
	return q.sendBuiltLocked(ctx, "load sub-devices", &b)
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

package dispatch

import (
	"context"
	"errors"
	"hash/maphash"
	"reflect"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kmd"
)

type wait struct {
	waiter
	q    *Queue
	what string
	task task
	seen movement

	submits   bool
	elsewhere bool // done may depend on something else than the queue, which then doesn't hang
}

func (q *Queue) newWait(what string, t task) wait {
	w := wait{waiter: newWaiter(q.d.opts.HangTimeout, q.d.opts.Pace, &q.d.naps), q: q, what: what, task: t}
	w.expect(q.forecasts.get(t))
	return w
}

// run drains completions meanwhile, so that the device never waits for the host. It fails with a
// *HangError without progress for the hang timeout.
func (w *wait) run(ctx context.Context, done func() bool) error {
	for {
		ended, err := w.poll(done)
		if ended && err == nil {
			w.q.forecasts.learn(w.task, period{w.looked.Sub(w.begun), time.Since(w.begun)})
		}
		if ended || err != nil {
			return err
		}
		if w.elsewhere {
			if err := w.q.failure(); err != nil {
				return w.fail(err)
			}
		}
		if err := w.pause(ctx); err != nil {
			if errors.Is(err, ErrTimeout) && !w.elsewhere {
				return w.hang(err)
			}
			return w.fail(err)
		}
	}
}

func (w *wait) fail(err error) error {
	return w.q.errorf("wait for %s: %w", w.what, err)
}

func (q *Queue) awaitLocked(ctx context.Context, what string, done func() bool) error {
	w := q.newWait(what, task{})
	w.submits = true
	return w.run(ctx, done)
}

// WaitFunc waits until done returns true. done may depend on something else than the queue: the
// hang timeout ends only this wait, with ErrTimeout. A queue that has failed ends it too.
func (q *Queue) WaitFunc(ctx context.Context, what string, done func() bool) error {
	w := q.newWait(what, task{last: what, function: reflect.ValueOf(done).Pointer()})
	w.elsewhere = true
	return w.run(ctx, done)
}

func (q *Queue) awaitReport(ctx context.Context, what string, c *completion) error {
	w := q.newWait(what, c.task)
	if err := w.run(ctx, c.done); err != nil {
		return err
	}
	if c.lost != nil {
		return q.errorf("wait for %s: %w", what, c.lost)
	}
	q.d.seen.add(c.before)
	q.forecasts.waited.Store(c.total)
	return nil
}

// drainOthers: this queue may wait for another whose dispatcher waits for space in its completion
// ring.
func (q *Queue) drainOthers() {
	for _, o := range q.all {
		if o != q {
			o.drainAlive()
		}
	}
}

// drainAlive doesn't wait for life.mu: a goroutine that is about to lock it may wait for the
// caller.
func (q *Queue) drainAlive() {
	if !q.life.mu.TryRLock() {
		return
	}
	defer q.life.mu.RUnlock()
	if !q.life.closed {
		_ = q.drain()
	}
}

func (q *Queue) overLifeLocked() error {
	if stop := q.status.stop.Load(); stop != nil {
		return *stop
	}
	return q.goneLifeLocked()
}

func (q *Queue) goneLifeLocked() error {
	if q.life.closed {
		return errClosed
	}
	return nil
}

// overLifeLocked lets a caller that ends the queue's kernels go on.
func (w *wait) overLifeLocked() error {
	if w.submits && w.q.life.ending {
		return w.q.goneLifeLocked()
	}
	return w.q.overLifeLocked()
}

func (w *wait) poll(done func() bool) (ended bool, err error) {
	q := w.q
	q.life.mu.RLock()
	defer q.life.mu.RUnlock()
	if err := w.overLifeLocked(); err != nil {
		return false, w.fail(err)
	}
	lost := q.d.kd.Guard(func() error {
		q.drainOthers()
		if err := q.comp.drain(); err != nil {
			return q.fail(w.fail(err))
		}
		if ended = done(); ended || w.sleep == 0 {
			return nil
		}
		if err := q.d.kd.Fault(); err != nil {
			return w.hangLifeLocked(err)
		}
		if w.looked.Sub(w.seen.looked) >= min(time.Millisecond, w.limit/checks) {
			w.seen.looked = w.looked
			now, err := q.progressLifeLocked()
			if err != nil {
				return err
			}
			if now != w.seen.queue {
				w.seen.queue = now
				w.progress()
			}
		}
		return nil
	})
	switch {
	case lost != nil && errors.Is(lost, kmd.ErrDeviceLost):
		return false, w.hangLifeLocked(lost)
	case lost != nil || ended:
		return ended, lost
	case w.sleep != 0 && q.d.printing.any.Load() && w.seen.watch.due():
		return false, w.watchLifeLocked()
	case w.due():
		begun := time.Now()
		err = w.pollDeviceLifeLocked()
		w.polled(time.Since(begun))
	}
	return false, err
}

type movement struct {
	queue  [2]uint64
	looked time.Time // at queue
	device uint64
	polled bool // device is valid
	watch  watchDue
}

// progressLifeLocked fails at once if the prefetcher's pointer is all ones and the device is lost.
func (q *Queue) progressLifeLocked() (p [2]uint64, err error) {
	read := q.tiles.prefetchL1.Load32(uint64(q.rings.fetch.rdAddr))
	if read == 1<<32-1 {
		err = q.d.kd.Alive()
	}
	p = [2]uint64{q.comp.pages.Load(), uint64(read)}
	for _, o := range q.all {
		if o != q {
			o.mix(&p)
		}
	}
	return p, err
}

func (q *Queue) mix(p *[2]uint64) {
	if !q.life.mu.TryRLock() {
		return
	}
	defer q.life.mu.RUnlock()
	if !q.life.closed {
		p[0] = p[0]<<32 | p[0]>>32 ^ q.comp.pages.Load()
		p[1] = p[1]<<32 | uint64(q.tiles.prefetchL1.Load32(uint64(q.rings.fetch.rdAddr)))
	}
}

type fingerprint struct{ maphash.Hash }

func (f *fingerprint) word(v uint32) {
	_, _ = f.Write([]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}) // never fails
}

// Any change on the device is progress: a program longer than the hang timeout is no hang while its
// kernels move. Reading every core is too slow for every poll.
func (w *wait) pollDeviceLifeLocked() error {
	if err := w.q.d.kd.Alive(); err != nil {
		return w.hangLifeLocked(err)
	}
	now := w.q.deviceFingerprint()
	if w.seen.polled && now != w.seen.device {
		w.progress()
	}
	w.seen.device, w.seen.polled = now, true
	return nil
}

func (w *wait) watchLifeLocked() error {
	d := w.q.d
	for _, c := range d.watchedCores(w.q.set.cores) {
		if fs, _ := d.failures(c); len(fs) > 0 {
			return w.hangLifeLocked(&fs[0])
		}
	}
	return nil
}

func (q *Queue) deviceFingerprint() uint64 {
	var f fingerprint
	f.SetSeed(q.d.seed)
	for i := range cq.MaxSubDevices {
		f.word(q.d.report.Register(q.tiles.dispatch, q.d.pr.Stream.Reg(q.d.pr.Stream.FirstDispatch+i, chip.SpaceAvailable)))
	}
	for c := range q.d.ch.Workers() {
		s := q.d.report.Core(c)
		f.word(s.Go)
		f.word(s.LaunchRead)
		for _, p := range s.Processors {
			_, _ = f.WriteString(p.Waypoint)
			f.word(p.Detail)
			f.word(p.Kernels)
		}
	}
	return f.Sum64()
}

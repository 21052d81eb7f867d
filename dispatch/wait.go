package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/internal/nap"
)

// ErrTimeout is the cause of a wait without progress for the hang timeout.
var ErrTimeout = errors.New("no progress")

// Pace says how waits on the host poll: first they yield to other goroutines, because replays take
// microseconds, then they sleep longer and longer.
type Pace struct {
	// Spin is how long a wait polls without sleeping, at most half of the hang timeout; 0 is 64
	// polls, some microseconds.
	Spin time.Duration
	// Longest is the longest sleep between two polls, at most a quarter of the hang timeout; 0
	// means 1 ms.
	Longest time.Duration
}

type waiter struct {
	limit    time.Duration // without progress
	pace     Pace
	naps     *nap.Sleeper
	begun    time.Time
	looked   time.Time
	forecast forecast
	rounds   int
	spin     time.Time // until when it spins
	sleep    time.Duration
	grown    time.Duration
	deadline time.Time
	check    time.Time
	asleep   time.Time // start of the last sleep
}

const (
	yieldRounds = 64
	minSleep    = 20 * time.Microsecond
	maxSleep    = time.Millisecond
	// spinShare: around its expected end a wait doesn't sleep if the end is known to one part in
	// this many.
	spinShare = 32
	// lateness bounds how much longer than asked a sleep and a poll take, unless the process was
	// stopped: a time slice, or the tick of a kernel without fine timers.
	lateness = 10 * time.Millisecond
)

func newWaiter(limit time.Duration, pace Pace, naps *nap.Sleeper) waiter {
	pace.Spin = min(pace.Spin, limit/2)
	if pace.Longest <= 0 {
		pace.Longest = maxSleep
	}
	pace.Longest = max(min(pace.Longest, limit/4), 1)
	return waiter{limit: limit, pace: pace, naps: naps}
}

func (w *waiter) progress() {
	*w = waiter{limit: w.limit, pace: w.pace, naps: w.naps, begun: w.begun, looked: w.looked, forecast: w.forecast}
}

func (w *waiter) spins() bool {
	w.rounds++
	if w.rounds <= yieldRounds {
		return true
	}
	if w.pace.Spin <= 0 || w.sleep != 0 {
		return false
	}
	now := time.Now()
	if w.spin.IsZero() {
		w.spin = now.Add(w.pace.Spin)
	}
	return now.Before(w.spin)
}

// checks is how often the whole device is polled before a hang.
const checks = 8

func (w *waiter) due() bool {
	if w.sleep == 0 {
		return false
	}
	now := time.Now()
	if now.Before(w.check) {
		return false
	}
	w.check = now.Add(w.limit / checks)
	return true
}

// polled excludes a poll of the whole device, which may be slow, from the time without progress. At
// least two polls precede a hang: the first only gives a state to compare with.
func (w *waiter) polled(took time.Duration) {
	if w.sleep == 0 {
		return // something has moved
	}
	w.deadline = w.deadline.Add(took)
	w.asleep = time.Now()
	w.check = w.asleep.Add(min(max(w.limit/checks, took), w.limit/2))
}

// overslept excludes time in which the process was stopped: an emulated device made no progress
// then.
func (w *waiter) overslept(now time.Time) {
	if w.asleep.IsZero() {
		return
	}
	if missed := now.Sub(w.asleep) - w.sleep - lateness; missed > 0 {
		w.deadline = w.deadline.Add(missed)
	}
}

// pause fails when ctx is done or nothing has moved for the limit.
func (w *waiter) pause(ctx context.Context) error {
	spins := w.spins()
	if w.rounds > yieldRounds {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	if spins {
		runtime.Gosched()
		return nil
	}
	now := time.Now()
	if w.sleep == 0 {
		w.grown, w.deadline, w.check = min(minSleep, w.pace.Longest), now.Add(w.limit), now.Add(w.limit/checks)
	}
	w.overslept(now)
	if now.After(w.deadline) {
		return fmt.Errorf("%w for %v", ErrTimeout, w.limit)
	}
	w.asleep, w.looked = now, now
	nap := w.nap(now, w.naps.Late())
	if w.sleep = max(nap, 1); nap == 0 {
		runtime.Gosched()
	} else {
		w.naps.Sleep(nap)
	}
	return nil
}

// nap returns how long to sleep: until shortly before the expected end, briefly around it, else
// longer and longer; 0 around a well-known end. late is how late sleeps end, by which the last one
// is shortened.
func (w *waiter) nap(now time.Time, late time.Duration) time.Duration {
	if f := &w.forecast; f.seen > 0 {
		gone, margin, most := now.Sub(w.begun), f.margin(), f.mean/spinShare
		if left := f.mean - margin - gone; left > 0 {
			return max(min(left-min(late, most), w.pace.Longest), 0)
		}
		if gone < f.mean+margin {
			if margin <= most {
				return 0
			}
			return min(max(margin/8, minSleep), w.pace.Longest)
		}
	}
	nap := w.grown
	// A sleep, and so the lateness of the next poll, is about a sixteenth of the wait so far.
	w.grown = min(nap+nap/16+1, w.pace.Longest)
	return nap
}

func (w *waiter) expect(f forecast) {
	w.begun, w.forecast = time.Now(), f
	w.looked = w.begun
}

const forever = 100 * 365 * 24 * time.Hour

// Poll calls done, paced like the waits for queues, until it returns true or an error. It has no
// hang timeout.
func (p Pace) Poll(ctx context.Context, done func() (bool, error)) error {
	var naps nap.Sleeper
	defer naps.Close()
	w := newWaiter(forever, p, &naps)
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := w.pause(ctx); err != nil {
			return err
		}
	}
}

// Waits learn how long repeated work takes: the next wait for the same work sleeps until shortly
// before its end and polls often around it. Work of varying duration is waited for as if it were
// new.

// A task is the newest submission and how much was submitted since the previous wait. Nothing is
// learned of the zero value.
type task struct {
	last     string
	function uintptr // that a wait calls
	n        uint32  // programs and replays
}

type forecasts struct {
	waited atomic.Uint32

	mu   sync.Mutex
	of   [forecastCount]forecast
	next int // that another task takes
}

const forecastCount = 32

type forecast struct {
	task   task
	seen   int
	mean   time.Duration
	spread time.Duration // mean distance from it
}

func (f *forecasts) find(t task) *forecast {
	for i := range f.of {
		if f.of[i].task == t {
			return &f.of[i]
		}
	}
	return nil
}

// get returns nothing if the times vary by more than a quarter.
func (f *forecasts) get(t task) forecast {
	if t == (task{}) {
		return forecast{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.find(t); c != nil && c.seen >= 2 && c.margin() <= c.mean/4 {
		return *c
	}
	return forecast{}
}

// margin is how far from mean most times are.
func (f *forecast) margin() time.Duration { return max(2*f.spread, f.mean/64) }

// A period brackets the end of a wait: not ended then, ended now.
type period struct{ then, now time.Duration }

func (p period) middle() time.Duration { return (p.then + p.now) / 2 }

func (p period) unseen() time.Duration { return (p.now - p.then) / 2 }

// from is the distance from d, negative before it; 0 if d is inside.
func (p period) from(d time.Duration) time.Duration { return max(p.then-d, 0) + min(p.now-d, 0) }

func (f *forecasts) learn(t task, in period) {
	if t == (task{}) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.find(t)
	if c == nil {
		c = &f.of[f.next]
		f.next = (f.next + 1) % forecastCount
		*c = forecast{task: t}
	}
	c.seen++
	switch early := c.mean - c.margin(); {
	case c.seen == 1:
		c.mean, c.spread = in.middle(), in.unseen()
	case c.seen == 2:
		off := in.middle() - c.mean
		c.mean, c.spread = c.mean+off/2, max(off.Abs(), in.unseen())
	case in.unseen() > c.margin() && in.then < early && early < in.now:
		// The last sleep was too long, so it isn't known where in the expected range the end was.
		// If it came earlier, the next wait that looks earlier says so.
		c.mean -= c.margin() / 8
	default:
		off := in.from(c.mean)
		if most := 2 * c.margin(); off.Abs() < c.mean/4 {
			off = min(max(off, -most), most)
		}
		c.mean += off / 4
		c.spread += (max(off.Abs(), in.unseen()/2) - c.spread) / 4
	}
}

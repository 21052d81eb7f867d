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

// ErrTimeout is the cause of a wait that ended because nothing moved for the hang timeout. A
// *HangError wraps it where the device's state could be collected.
var ErrTimeout = errors.New("no progress")

// Pace says how waits on the host poll. At first they only yield to other goroutines between polls,
// because replays take microseconds. Then they sleep, longer and longer, so that a wait doesn't
// keep a processor busy.
type Pace struct {
	// Spin is how long a wait polls without sleeping, at most half of the hang timeout. 0 is 64
	// polls, some microseconds.
	Spin time.Duration
	// Longest is the longest sleep between two polls, and so how late a wait may see its end or
	// that of its context; 0 means 1 ms. It is at most a quarter of the hang timeout.
	Longest time.Duration
}

// waiter paces a polling loop.
type waiter struct {
	limit    time.Duration // without progress, after which it is a hang
	pace     Pace
	naps     *nap.Sleeper
	begun    time.Time
	looked   time.Time // when the last pause began: what is waited for wasn't there
	forecast forecast
	rounds   int
	spin     time.Time     // until when it spins
	sleep    time.Duration // the last one; 0 while there was none
	grown    time.Duration // the next one that nothing is known of
	deadline time.Time
	check    time.Time // when to poll the whole device next
	asleep   time.Time // when the last sleep began; zero if none has
}

const (
	yieldRounds = 64
	minSleep    = 20 * time.Microsecond
	maxSleep    = time.Millisecond
	// spinShare is what part of a wait its expected end may be off at most for the wait to poll
	// around it without sleeping.
	spinShare = 32
	// lateness is how much longer than asked a sleep and the poll after it may take without
	// counting as a process that was stopped: the time slice of a scheduler, or the tick of a
	// kernel without fine timers.
	lateness = 10 * time.Millisecond
)

func newWaiter(limit time.Duration, pace Pace, naps *nap.Sleeper) waiter {
	pace.Spin = min(pace.Spin, limit/2)
	if pace.Longest <= 0 {
		pace.Longest = maxSleep
	}
	pace.Longest = max(min(pace.Longest, limit/4), 1) // 0 would be a wait that never sleeps, which is never a hang
	return waiter{limit: limit, pace: pace, naps: naps}
}

// progress restarts the clock.
func (w *waiter) progress() {
	*w = waiter{limit: w.limit, pace: w.pace, naps: w.naps, begun: w.begun, looked: w.looked, forecast: w.forecast}
}

// spins returns whether the next pause is without a sleep.
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

// checks is how often the whole device is polled before a wait without progress is a hang.
const checks = 8

// due returns true each time when the whole device is to be polled.
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

// polled accounts for a poll of the whole device, which over a tunnel may take longer than the
// limit. The queue wasn't watched meanwhile, so that time doesn't count as time without progress,
// and polls don't take most of a wait. At least two precede a hang: the first one only gives what
// to compare with.
func (w *waiter) polled(took time.Duration) {
	if w.sleep == 0 {
		return // something has moved
	}
	w.deadline = w.deadline.Add(took)
	w.asleep = time.Now()
	w.check = w.asleep.Add(min(max(w.limit/checks, took), w.limit/2))
}

// overslept excludes time in which the queue wasn't watched from the time without progress: a
// process that was stopped, in a debugger or because others had the processors, didn't watch it,
// and an emulated device couldn't make progress either.
func (w *waiter) overslept(now time.Time) {
	if w.asleep.IsZero() {
		return
	}
	if missed := now.Sub(w.asleep) - w.sleep - lateness; missed > 0 {
		w.deadline = w.deadline.Add(missed)
	}
}

// pause waits until the next poll. It fails when the context is done or nothing has moved for the
// limit.
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

// nap returns how long to sleep: until shortly before the end that is expected, briefly around it,
// else longer and longer. Around an end that is well known it is 0: polling for that time then
// costs a small part of a processor, and a sleep is late by more. late is what sleeps are late by.
// The last one before polls are to begin is asked to end earlier by that, but not by so much that
// more would be polled than around an end that is just well known.
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

// expect begins a wait for what takes as long as a forecast says.
func (w *waiter) expect(f forecast) {
	w.begun, w.forecast = time.Now(), f
	w.looked = w.begun
}

// took returns when the wait has ended, from expect on.
func (w *waiter) took() period { return period{w.looked.Sub(w.begun), time.Since(w.begun)} }

// forever is the limit of a wait that is never a hang.
const forever = 100 * 365 * 24 * time.Hour

// Poll calls done, paced like the waits for queues, until it returns true or an error, and returns
// that error, or the cause of the context's end. It has no hang timeout.
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

// Waits learn how long work takes that is waited for again and again: the replay of a trace, a step
// of a model. The next wait for the same work sleeps until shortly before its end and polls often
// around it, so that it sees the end within microseconds and sleeps for nearly all of the time.
// Work whose time varies is waited for as if it were new.

// A task is what a wait waits for: what the queue was given last, and how much since the wait
// before. The zero value is none, of which nothing is learned.
type task struct {
	last     string  // name of what was submitted last, or of the wait
	function uintptr // that a wait calls
	n        uint32  // programs and replays
}

// forecasts are those of a queue's waits. The zero value is ready to use.
type forecasts struct {
	waited atomic.Uint32 // programs and replays before the newest wait that succeeded

	mu   sync.Mutex
	of   [forecastCount]forecast
	next int // that another task takes
}

// forecastCount is how many tasks have one; others take their places in turn.
const forecastCount = 32

// A forecast is how long a task takes.
type forecast struct {
	task   task
	seen   int           // times, at least; 0 if there is no forecast
	mean   time.Duration // of the newest ones, mostly
	spread time.Duration // mean distance from it, and half of the time in which nobody looked
}

// find returns the forecast of a task; nil if there is none. mu is held.
func (f *forecasts) find(t task) *forecast {
	for i := range f.of {
		if f.of[i].task == t {
			return &f.of[i]
		}
	}
	return nil
}

// get returns the forecast of a task. It is the zero value if there is none, or if its times vary
// by more than a quarter.
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

// A period is between two times after the begin of a wait: it had not ended then, and had now.
type period struct{ then, now time.Duration }

func (p period) middle() time.Duration { return (p.then + p.now) / 2 }

// unseen is how far from the middle the end was at most.
func (p period) unseen() time.Duration { return (p.now - p.then) / 2 }

// from is how far it is from d, negative if it was before. It is 0 if d is in it.
func (p period) from(d time.Duration) time.Duration { return max(p.then-d, 0) + min(p.now-d, 0) }

// learn takes in when a wait for a task ended.
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
		// The last sleep was to end before the time in which the end is expected, and was too long,
		// so where in it the end was isn't known. If it is before that time, the next wait that
		// looks earlier says so.
		c.mean -= c.margin() / 8
	default:
		off := in.from(c.mean)
		if most := 2 * c.margin(); off.Abs() < c.mean/4 {
			// A single end far from the others, such as one that came while other programs had the
			// processor, says little of the next.
			off = min(max(off, -most), most)
		}
		c.mean += off / 4
		c.spread += (max(off.Abs(), in.unseen()/2) - c.spread) / 4
	}
}

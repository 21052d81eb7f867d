package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// ErrTimeout is the cause of a wait that ended because nothing moved for as long as it was allowed to. It stands
// inside a *HangError where the device's state could be collected.
var ErrTimeout = errors.New("no progress")

// Pace says how waits on the host go about it. At first they look again and again and only let other goroutines run in
// between, because replays take microseconds. Then they sleep longer and longer, because a core that waits for a device must
// not take a processor from it.
type Pace struct {
	// Spin is how long a wait looks without sleeping, at most half of the hang timeout. 0 is 64 looks, some microseconds.
	Spin time.Duration
	// Longest is how long it sleeps at most, and so how late it may see what it waits for or the end of its context; 0
	// means 1 ms. It is at most a quarter of the hang timeout.
	Longest time.Duration
}

// waiter paces a polling loop.
type waiter struct {
	limit    time.Duration // how long without progress is a hang
	pace     Pace
	rounds   int
	spin     time.Time // until when it spins
	sleep    time.Duration
	deadline time.Time
	check    time.Time // when to look at the whole device next
	asleep   time.Time // when the last sleep began; zero if none has
}

const (
	yieldRounds = 64
	minSleep    = 20 * time.Microsecond
	maxSleep    = time.Millisecond
	// lateness is how much longer than asked a sleep and what is done behind it may take and still be watching: the time slice
	// of a scheduler, or the tick of a kernel without fine timers.
	lateness = 10 * time.Millisecond
)

func newWaiter(limit time.Duration, pace Pace) waiter {
	pace.Spin = min(pace.Spin, limit/2)
	if pace.Longest <= 0 {
		pace.Longest = maxSleep
	}
	pace.Longest = max(min(pace.Longest, limit/4), 1) // 0 would be a wait that never sleeps, which is never a hang
	return waiter{limit: limit, pace: pace}
}

// progress restarts the clock.
func (w *waiter) progress() { *w = waiter{limit: w.limit, pace: w.pace} }

// spins says whether the wait is still to go without sleeping.
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

// checks is how often the whole device is looked at before a wait without progress is a hang.
const checks = 8

// due says, once in a while, that it is time to look at the whole device.
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

// polled says how long a look at the whole device has taken, which behind a tunnel may be longer than the limit. Nobody has
// watched the queue meanwhile, so that time doesn't count as time without progress; and looks don't take most of a wait. There
// are two before a hang at least: the first one only says what to compare with.
func (w *waiter) polled(took time.Duration) {
	if w.sleep == 0 {
		return // something has moved
	}
	w.deadline = w.deadline.Add(took)
	w.asleep = time.Now()
	w.check = w.asleep.Add(min(max(w.limit/checks, took), w.limit/2))
}

// overslept lets time count as time without progress only as far as somebody has watched the queue. A process that was
// stopped, in a debugger or because others had the processors, has not, and a device that works by the same processors
// couldn't move either.
func (w *waiter) overslept(now time.Time) {
	if w.asleep.IsZero() {
		return
	}
	if missed := now.Sub(w.asleep) - w.sleep - lateness; missed > 0 {
		w.deadline = w.deadline.Add(missed)
	}
}

// pause waits a little. It fails when the context is done or nothing has moved for the limit.
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
		w.sleep, w.deadline, w.check = min(minSleep, w.pace.Longest), now.Add(w.limit), now.Add(w.limit/checks)
	}
	w.overslept(now)
	if now.After(w.deadline) {
		return fmt.Errorf("%w for %v", ErrTimeout, w.limit)
	}
	w.asleep = now
	shortSleep(w.sleep)
	// A sleep is about a quarter of the wait so far, and so is what it may come too late by.
	w.sleep = min(w.sleep+w.sleep/4, w.pace.Longest)
	return nil
}

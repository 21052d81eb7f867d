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

// waiter paces a polling loop: at first it only yields, because replays take microseconds, then it sleeps longer and
// longer, because a core that waits for a device must not take a processor from it.
type waiter struct {
	limit    time.Duration // how long without progress is a hang
	rounds   int
	sleep    time.Duration
	deadline time.Time
	check    time.Time // when to look at the whole device next
}

const (
	yieldRounds = 64
	minSleep    = 20 * time.Microsecond
	maxSleep    = time.Millisecond
)

func newWaiter(limit time.Duration) waiter { return waiter{limit: limit} }

// progress restarts the clock.
func (w *waiter) progress() { *w = waiter{limit: w.limit} }

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

// pause waits a little. It fails when the context is done or nothing has moved for the limit.
func (w *waiter) pause(ctx context.Context) error {
	w.rounds++
	if w.rounds <= yieldRounds {
		runtime.Gosched()
		return nil
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	now := time.Now()
	if w.sleep == 0 {
		w.sleep, w.deadline, w.check = minSleep, now.Add(w.limit), now.Add(w.limit/checks)
	}
	if now.After(w.deadline) {
		return fmt.Errorf("%w for %v", ErrTimeout, w.limit)
	}
	time.Sleep(w.sleep)
	w.sleep = min(2*w.sleep, maxSleep)
	return nil
}

package bench

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise"
)

// paces are the ways to wait that the wake family measures.
var paces = []struct {
	name          string
	spin, longest time.Duration
}{
	{"default", 0, 0},
	{"spin=5ms", 5 * time.Millisecond, 0},
	{"longest=100us", 0, 100 * time.Microsecond},
	{"longest=5ms", 0, 5 * time.Millisecond},
}

// arrivals are when what is waited for comes: while a wait still spins, when its sleeps are short, and when they are as
// long as they get.
var arrivals = []struct {
	name  string
	after time.Duration
}{
	{"soon", 5 * time.Microsecond}, {"200us", 200 * time.Microsecond}, {"4ms", 4 * time.Millisecond},
}

// measureWake measures how late a wait notices: from when the word that it waits for has changed in host memory to when the
// waiter runs again. The wait is a queue's own, with everything that it polls between pauses. The word is the measurement's:
// a goroutine changes it in place of the device, and unlike the device knows when.
func measureWake(ctx context.Context, s *session) error {
	if runtime.GOMAXPROCS(0) < 2 {
		s.leaveOut("wake", "", "the waiter and the goroutine that wakes it need a processor each, and the machine has one")
		return nil
	}
	for _, p := range paces {
		err := s.with(ctx, func() error {
			for _, a := range arrivals {
				params := []Param{{"pace", p.name}, {"comes", a.name}}
				if err := s.measure(ctx, "wake", wakeJob(s.runner.clock, s.dev.Queue(0), params, a.after)); err != nil {
					return err
				}
			}
			return nil
		}, reprise.WithPace(p.spin, p.longest))
		if err != nil {
			return err
		}
	}
	return nil
}

func wakeJob(c clock, q *reprise.Queue, params []Param, after time.Duration) *job {
	return &job{name: "wait", params: params, per: 1, burst: 8, sample: func(ctx context.Context) (float64, error) {
		var came atomic.Int64 // when; 0 until then
		go func() {
			start, least := time.Now(), after+rand.N(after) // so that it doesn't keep step with the sleeps
			if least > time.Millisecond {
				time.Sleep(least)
			}
			for time.Since(start) < least {
			}
			came.Store(ticks())
		}()
		err := q.WaitFunc(ctx, func() bool { return came.Load() != 0 })
		return c.ns(came.Load(), ticks()), err
	}}
}

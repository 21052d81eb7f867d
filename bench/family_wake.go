package bench

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise"
)

// A pace is a way to wait.
type pace struct {
	name          string
	spin, longest time.Duration
}

var (
	defaultPace  = pace{"default", 0, 0}
	spinningPace = pace{"spin=5ms", 5 * time.Millisecond, 0}
)

// paces are the ways to wait that the wake family measures.
var paces = []pace{
	defaultPace,
	spinningPace,
	{"longest=100us", 0, 100 * time.Microsecond},
	{"longest=5ms", 0, 5 * time.Millisecond},
}

// An arrival is when what is waited for comes.
type arrival struct {
	name   string
	after  time.Duration
	repeat bool // each time, as work does that repeats; else up to as long again after that
}

var (
	comesOnce  = arrival{"4ms", 4 * time.Millisecond, false}
	comesAgain = arrival{"4ms-again", 4 * time.Millisecond, true}
)

// arrivals are while a wait still spins, when its sleeps are short, when they are as long as they get, and when it can know.
var arrivals = []arrival{
	{"soon", 5 * time.Microsecond, false}, {"200us", 200 * time.Microsecond, false}, comesOnce,
	comesAgain, {"40ms-again", 40 * time.Millisecond, true},
}

// measureWake measures how late a wait notices: from when the word that it waits for has changed in host memory to when the
// waiter runs again. The wait is a queue's own, with everything that it polls between pauses. The word is the measurement's:
// a goroutine changes it in place of the device, and unlike the device knows when. Its figure "processor" is how much processor time
// a wait takes, without that goroutine's.
func measureWake(ctx context.Context, s *session) error {
	if runtime.GOMAXPROCS(0) < 2 {
		s.leaveOut("wake", "", "the waiter and the goroutine that wakes it need a processor each, and the machine has one")
		return nil
	}
	for _, p := range paces {
		if err := s.measurePace(ctx, p, arrivals...); err != nil {
			return err
		}
	}
	return nil
}

// measurePace measures waits by one pace.
func (s *session) measurePace(ctx context.Context, p pace, arrivals ...arrival) error {
	return s.with(ctx, func() error {
		for _, a := range arrivals {
			params := []Param{{"pace", p.name}, {"comes", a.name}}
			late, busy := wakeJobs(s.runner.clock, s.dev.Queue(0), params, a)
			if err := s.measure(ctx, "wake", late); err != nil {
				return err
			}
			if _, ok := processorTime(); !ok || a.after < time.Millisecond { // else it is mostly the goroutine's
				continue
			}
			if err := s.measure(ctx, "wake", busy); err != nil {
				return err
			}
		}
		return nil
	}, reprise.WithPace(p.spin, p.longest))
}

// wakeJobs measure how late waits notice, and the processor time that they take.
func wakeJobs(c clock, q *reprise.Queue, params []Param, a arrival) (late, busy *job) {
	var came atomic.Int64 // when; 0 until then
	done := func() bool { return came.Load() != 0 }
	wait := func(ctx context.Context) (late float64, waker time.Duration, err error) {
		least := a.after
		if !a.repeat {
			least += rand.N(a.after) // so that it doesn't keep step with the sleeps
		}
		came.Store(0)
		took := make(chan time.Duration, 1)
		start := time.Now()
		go func() {
			if least > time.Millisecond {
				runtime.LockOSThread() // whose time is this goroutine's; the thread ends with it
				sleepUntil(start.Add(least - 100*time.Microsecond))
			}
			for time.Since(start) < least {
			}
			came.Store(ticks())
			took <- threadTime()
		}()
		err = q.WaitFunc(ctx, done)
		seen := ticks()
		if err == nil {
			late = c.ns(came.Load(), seen)
		}
		return late, <-took, err
	}
	late = &job{name: "wait", params: params, per: 1, burst: 8, sample: func(ctx context.Context) (float64, error) {
		ns, _, err := wait(ctx)
		return ns, err
	}}
	busy = &job{name: "processor", params: params, per: 1, burst: 8, sample: func(ctx context.Context) (float64, error) {
		before, _ := processorTime()
		_, waker, err := wait(ctx)
		after, _ := processorTime()
		return float64(max(0, after-before-waker)), err
	}}
	return late, busy
}

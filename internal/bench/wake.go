package bench

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// arrival says when an awaited change happens.
type arrival struct {
	name   string
	after  time.Duration
	repeat bool // the same delay each time; else up to twice as long
	busy   bool // another goroutine spins until then, as with an emulated chip
}

// mean is the average delay.
func (a arrival) mean() time.Duration {
	if a.repeat {
		return a.after
	}
	return a.after * 3 / 2
}

var (
	comesOnce  = arrival{name: "4ms", after: 4 * time.Millisecond}
	comesAgain = arrival{name: "4ms-again", after: 4 * time.Millisecond, repeat: true}
	comesBusy  = arrival{name: "4ms-again-busy", after: 4 * time.Millisecond, repeat: true, busy: true}
)

// arrivals fall into a wait's spinning, its short sleeps and its longest sleeps, and at predictable
// times.
var arrivals = []arrival{
	{name: "soon", after: 5 * time.Microsecond}, {name: "200us", after: 200 * time.Microsecond}, comesOnce,
	comesAgain, {name: "40ms-again", after: 40 * time.Millisecond, repeat: true}, comesBusy,
}

// measureWake measures the time from an awaited change to the waiter's return. The wait is a
// queue's own; the change is a point in time instead of a device's word, so that its time is known.
// "processor" is the processor time of a wait while nothing else runs.
func measureWake(s *session) error {
	arrivals := arrivals
	if runtime.GOMAXPROCS(0) < 2 {
		s.leaveOut("wake", "/comes="+comesBusy.name,
			"the waiter and the goroutine that is busy need a processor each, and the machine has one")
		arrivals = slices.DeleteFunc(slices.Clone(arrivals), func(a arrival) bool { return a.busy })
	}
	for _, p := range paces {
		if err := s.measurePace(p, arrivals...); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) measurePace(p pace, arrivals ...arrival) error {
	return s.with(func() error {
		for _, a := range arrivals {
			params := report.Params("pace", p.name, "comes", a.name)
			late, busy := wakeJobs(s.ctx, s.runner.Clock, s.queue(), params, a)
			if err := s.measure("wake", late); err != nil {
				return err
			}
			if _, ok := measure.ProcessTime(); !ok || a.busy || a.after < time.Millisecond { // else mostly the measurement's own time
				continue
			}
			if err := s.measure("wake", busy); err != nil {
				return err
			}
		}
		return nil
	}, reprise.WithPace(p.spin, p.longest))
}

// wakeJobs measure the lateness and the processor time of waits.
func wakeJobs(ctx context.Context, c measure.Clock, q *reprise.Queue, params []report.Param, a arrival) (late, busy *measure.Job) {
	var start int64
	var least float64 // ns after start
	came := func() bool { return c.Ns(start, measure.Ticks()) >= least }
	wait := func() (late float64, err error) {
		after := a.after
		if !a.repeat {
			after += rand.N(a.after) // out of step with the sleeps
		}
		start, least = measure.Ticks(), float64(after)
		var others sync.WaitGroup
		if a.busy {
			others.Go(func() {
				for !came() {
				}
			})
		}
		err = q.WaitFunc(ctx, came)
		late = c.Ns(start, measure.Ticks()) - least
		others.Wait()
		return late, err
	}
	late = &measure.Job{Name: "wait", Params: params, Burst: 8, Sample: wait}
	busy = &measure.Job{Name: "processor", Params: params, Burst: 8, Sample: func() (float64, error) {
		before, _ := measure.ProcessTime()
		_, err := wait()
		after, _ := measure.ProcessTime()
		return float64(after - before), err
	}}
	return late, busy
}

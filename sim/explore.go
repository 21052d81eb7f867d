package sim

import (
	"context"

	"github.com/reprise-tt/reprise/internal/schedules"
)

// Bounds bound what [Explore] does.
type Bounds struct {
	// At most so many schedules are run, and each holds back at most Preemptions accesses.
	Schedules, Preemptions int
	// Seed draws what a schedule leaves open.
	Seed uint64
	// State, if not empty, is a file in which Explore keeps what is left to do, and resumes.
	State string
}

// Explored is what [Explore] has done, together with earlier calls of the same State.
type Explored struct {
	Runs    int
	Pending int  // schedules that are known and were not run
	All     bool // all schedules within the bound of preemptions were run, without a failure
	// Failure is why a schedule with the fewest preemptions of all that fail does so, or empty. The
	// State is then a file for [Schedule].
	Failure string
}

// Explore runs f under one schedule after another until one fails: f returns an error, such as a
// chip's fault. f opens cards of at most one chip with the option, one after another, and makes the
// same accesses in each run; the error tells of one that differs.
func Explore(ctx context.Context, b Bounds, f func(context.Context, Option) error) (Explored, error) {
	s := &schedules.File{Seed: b.Seed, Preemptions: b.Preemptions}
	s, err := schedules.Explore(ctx, b.State, b.Schedules, s, func(file *schedules.File) (schedules.Result, error, error) {
		run := schedules.NewRun(file)
		failure := f(ctx, Scheduled(run))
		return run.Result(), failure, nil
	})
	return Explored{s.Runs, len(s.Pending), s.All(), s.Failure}, err
}

// Schedule repeats a run that Explore or reprise ttnn run has found, from its file.
func Schedule(path string) (Option, error) {
	run, err := schedules.Open(path)
	return Scheduled(run), err
}

// StopAtHold, after [Schedule], makes the chip stand still when the first access is held back,
// until a debugger has come through [Card.Tools]. tell is called first.
func StopAtHold(tell func(access string)) Option {
	return func(c *config) {
		if s := c.chip.Schedule; s != nil {
			s.Stop = func(h schedules.Hold) { tell(h.Text) }
		}
	}
}

// Scheduled is Schedule, for a program that wants the run's result.
func Scheduled(run *schedules.Run) Option {
	return func(c *config) {
		RunToIdle()(c)
		c.chip.Schedule = run
	}
}

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
	// State, if not empty, is a file in which Explore keeps what is left to do. It resumes if there
	// is one.
	State string
}

// Explored is what [Explore] has done, together with earlier calls of the same State.
type Explored struct {
	Runs, Distinct, Infeasible int
	// Pending schedules are known and were not run.
	Pending int
	// All is set if all schedules within the bound of preemptions were run, without a failure.
	All bool
	// Failure is why the first failing schedule failed, or empty. Failing has the fewest
	// preemptions of all that fail: the contents of a file for [Schedule].
	Failure string
	Failing []byte
}

// Explore runs f under one schedule after another until one fails: f returns an error, such as a
// chip's fault. f opens cards of at most one chip with the option, after all others, and makes the
// same accesses in each run. The error wraps that of a run that differs, or of State.
func Explore(ctx context.Context, b Bounds, f func(context.Context, Option) error) (Explored, error) {
	under := func(ctx context.Context, file *schedules.File) (schedules.Result, string, error) {
		run := schedules.NewRun(file.Holds)
		failure := ""
		if err := f(ctx, Scheduled(file.Seed, run)); err != nil {
			failure = err.Error()
		}
		return run.Result(), failure, ctx.Err()
	}
	s, err := schedules.Explore(ctx, schedules.Bounds(b), under)
	if s == nil {
		return Explored{}, err
	}
	out := Explored{Runs: s.Runs, Distinct: s.Distinct, Infeasible: s.Infeasible, Pending: len(s.Pending), All: s.All()}
	if s.Failing != nil {
		out.Failure, out.Failing = s.Failing.Failure, s.Failing.JSON()
	}
	return out, err
}

// Schedule repeats a run that Explore or reprise ttnn run has found, from the contents of its file.
// It comes after all other options.
func Schedule(file []byte) (Option, error) {
	f, err := schedules.Parse(file)
	if err != nil {
		return nil, err
	}
	return func(c *config) { Scheduled(f.Seed, schedules.NewRun(f.Holds))(c) }, nil
}

// Scheduled is Schedule, for a program that wants the run's result.
func Scheduled(seed uint64, run *schedules.Run) Option {
	return func(c *config) {
		RunToIdle()(c)
		c.chip.Seed, c.chip.Schedule = seed, run
	}
}

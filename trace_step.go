package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/tracebuf"
)

// StepError says at which of its programs a trace failed that was run in pieces.
type StepError struct {
	Trace string
	First int // steps from First up to Last were under way
	Last  int
	Name  string // of the program of the first
	Err   error
}

// Error implements error.
func (e *StepError) Error() string {
	if e.First == e.Last {
		return fmt.Sprintf("reprise: trace %q: step %d, program %q: %v", e.Trace, e.First, e.Name, e.Err)
	}
	return fmt.Sprintf("reprise: trace %q: steps %d to %d, from program %q on: %v", e.Trace, e.First, e.Last, e.Name, e.Err)
}

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// Step runs the trace program by program: the host sends the commands that a replay would have read from DRAM, and waits
// for each program to finish. So a program that hangs is known by name, and after may look at buffers behind each one. It
// is called with the index of the step that has finished; an error ends the run. Its result is a *StepError, which holds
// what went wrong.
//
// Until Step returns, the queue refuses other programs and replays, and the trace its release, with [ErrReserved].
// Transfers are free, and so are CheckResults, Verify and Save.
func (t *Trace) Step(ctx context.Context, after func(step int) error) error {
	return t.takeApart().stepThrough(ctx, after)
}

// Split runs the trace as pieces of about equal numbers of programs that lie in DRAM and are replayed one behind the
// other, with a wait after each. Programs that fail only in a replay, not in Step, are so found among fewer and fewer.
// after is called with the steps of the piece that has finished, from first up to end, without end; an error ends the run.
// Its result is a *StepError. Split takes DRAM for the pieces until it returns, and the queue as Step does.
func (t *Trace) Split(ctx context.Context, pieces int, after func(first, end int) error) error {
	return t.takeApart().split(ctx, pieces, after)
}

// ProgramStep is a program of a trace.
type ProgramStep struct {
	Queue *Queue
	tracebuf.Step
}

// Programs returns the recorded programs in an order that the edges allow. It is what Step, Split, Check and Bisect mean
// by steps; replays run those at the same time that no edges order.
func (t *Trace) Programs() []ProgramStep {
	a := t.takeApart()
	var out []ProgramStep
	for i := range a.runs {
		part, s := a.at(i)
		out = append(out, ProgramStep{part.q, *s})
	}
	return out
}

func (a *apart) stepThrough(ctx context.Context, after func(step int) error) error {
	return a.alone(ctx, "step through", func() error { return a.step(ctx, len(a.runs), after) })
}

// heads sends what comes in front of each queue's first program.
func (a *apart) heads(ctx context.Context) error {
	for i, t := range a.parts {
		head, err := tracebuf.NewReplay(t.q.replayConfig(t.image, t.ext))
		if err == nil {
			err = a.rs[i].Commands(ctx, t.name, head.Bytes[:head.ExecBuf], t.counts(head), t.q.q.StateAfter(0))
		}
		if err != nil {
			return a.stepError(0, 1, err)
		}
	}
	return nil
}

// runStep sends the commands of a program, by its number. It is the nth of its queue, from 1.
func (a *apart) runStep(ctx context.Context, run, nth int) error {
	part := a.runs[run].Part
	t, s := a.at(run)
	name := fmt.Sprintf("step %d of trace %q, program %q", run, a.name, s.Name)
	return a.rs[part].Commands(ctx, name, a.cmds[part][s.Offset:s.Offset+s.Size], nil, t.q.q.StateAfter(nth))
}

// step runs the first n programs one by one.
func (a *apart) step(ctx context.Context, n int, after func(step int) error) error {
	if err := a.heads(ctx); err != nil {
		return err
	}
	runs, starts := make([]int, len(a.parts)), a.starts()
	for i, at := range a.runs[:n] {
		runs[at.Part]++
		err := a.runStep(ctx, i, runs[at.Part])
		if err == nil {
			err = a.parts[at.Part].q.await(ctx)
		}
		if err == nil && after != nil {
			err = cmp.Or(after(i), a.since(starts))
		}
		if err != nil {
			return a.stepError(i, i+1, err)
		}
	}
	return nil
}

func (a *apart) split(ctx context.Context, pieces int, after func(first, end int) error) error {
	n := len(a.runs)
	if pieces < 1 || pieces > n {
		return fmt.Errorf("reprise: split trace %q: %d pieces: it has %d programs, so 1 to %d pieces are possible", a.name, pieces, n, n)
	}
	return a.alone(ctx, "split", func() (err error) {
		var all []*piece
		defer func() {
			for _, p := range all {
				err = errors.Join(err, p.free(ctx))
			}
		}()
		for i := range pieces {
			p, err := a.piece(ctx, i*n/pieces, (i+1)*n/pieces)
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		starts := a.starts()
		for _, p := range all {
			err := p.run(ctx)
			if err == nil && after != nil {
				err = cmp.Or(after(p.first, p.end), a.since(starts))
			}
			if err != nil {
				return a.stepError(p.first, p.end, err)
			}
		}
		return nil
	})
}

package reprise

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/dispatch"
)

// StepTime is when a program of a trace ran.
type StepTime struct {
	Queue int    // number of the queue
	Name  string // of the program
	// Start and End are cycles of the clock of the queue's dispatch core: when the program before it was done, and when it
	// was done itself, with all its results in memory. See Event.DeviceTime.
	Start, End uint64
}

// Times runs the trace program by program, as Step does but without waiting on the host in between, and returns how long each
// took on the device. A stamp of the dispatcher lies behind each program, so that programs don't overlap as those of a
// replay do, where the next one's commands and kernels come in while one runs: the sum is more than a replay takes. What the
// stamp itself costs is the figure replay/stamp of reprise bench.
func (t *Trace) Times(ctx context.Context) ([]StepTime, error) { return t.takeApart().times(ctx) }

func (a *apart) times(ctx context.Context) (out []StepTime, err error) {
	err = a.alone(ctx, "time", func() error {
		begins := make([]*dispatch.Event, len(a.parts)) // the last stamp of each queue
		stamp := func(part int) (*dispatch.Event, error) {
			e := a.d.disp.NewEvent(a.name, true)
			return e, a.parts[part].q.q.Record(ctx, e, 0)
		}
		if err := a.heads(ctx); err != nil {
			return err
		}
		for i := range a.parts {
			var err error
			if begins[i], err = stamp(i); err != nil {
				return a.stepError(0, 1, err)
			}
		}
		done := make([][2]*dispatch.Event, len(a.runs))
		runs := make([]int, len(a.parts))
		for i, at := range a.runs {
			runs[at.Part]++
			err := a.runStep(ctx, i, runs[at.Part])
			if err == nil {
				done[i][0] = begins[at.Part]
				done[i][1], err = stamp(at.Part)
				begins[at.Part] = done[i][1]
			}
			if err == nil && len(a.parts) > 1 {
				err = a.parts[at.Part].q.await(ctx)
			}
			if err != nil {
				return a.stepError(i, i+1, err)
			}
		}
		if err := a.finish(ctx); err != nil {
			return a.stepError(0, len(a.runs), err)
		}
		for i := range a.runs {
			t, s := a.at(i)
			start, began := done[i][0].DeviceTime()
			end, ended := done[i][1].DeviceTime()
			if !began || !ended {
				return a.stepError(i, i+1, fmt.Errorf("its time was lost: %w", ErrRecovering))
			}
			out = append(out, StepTime{Queue: t.q.ID(), Name: s.Name, Start: start, End: end})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

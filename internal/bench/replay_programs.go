package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// mostTimes is the number of program times that the device keeps.
const mostTimes = 1000

// programTimes measures each program of a replayed trace by the device's own records, without
// commands between the programs. A sample reaches from the end of the program before and the start
// to the end of the kernels.
func (s *session) programTimes(ctx context.Context, t *reprise.Trace, programs int, mhz float64) error {
	if programs > mostTimes {
		return nil
	}
	read, err := s.dev.Queue(0).ProgramTimes()
	if errors.Is(err, dispatch.ErrQueueFirmware) {
		return nil
	}
	if err != nil {
		return err
	}
	var times []dispatch.ProgramTime // of the last replay, not yet returned as samples
	return s.measure(ctx, "replay", &measure.Job{
		Name: "device_program", Params: report.Params("programs", programs), Burst: min(max(programs, 4), 64),
		Sample: func(ctx context.Context) (float64, error) {
			if len(times) == 0 {
				if times, err = s.replayed(ctx, t, read, programs); err != nil {
					return 0, err
				}
			}
			at := times[0]
			times = times[1:]
			return float64(at.End-at.Start) * 1e3 / mhz, nil
		},
	})
}

// replayed replays a trace to its end and returns the times of its programs.
func (s *session) replayed(ctx context.Context, t *reprise.Trace, read *dispatch.ProgramTimes,
	programs int) ([]dispatch.ProgramTime, error) {
	if _, _, err := read.Append(nil); err != nil { // drop those of earlier replays
		return nil, err
	}
	if err := errors.Join(t.Replay(ctx), s.finish(ctx)); err != nil {
		return nil, err
	}
	// The device records the last program's end shortly after the host sees the replay's end.
	var times []dispatch.ProgramTime
	var err error
	wait := s.dev.Queue(0).WaitFunc(ctx, func() bool {
		var lost int
		times, lost, err = read.Append(times)
		if lost > 0 {
			err = errors.Join(err, fmt.Errorf("the times of %d programs were overwritten", lost))
		}
		return err != nil || len(times) >= programs
	})
	if err := errors.Join(wait, err); err != nil {
		return nil, err
	}
	if len(times) != programs {
		return nil, fmt.Errorf("%d programs ran in a replay of %d", len(times), programs)
	}
	return times, nil
}

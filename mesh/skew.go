package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise"
)

// Skew is the difference in time between the chips of a replay.
type Skew struct {
	Chips []ChipTime // in the order of the trace's chips
	// Spread is the time from the first chip to the last. Within is the possible error of Spread: twice the duration of the
	// longest reading of a clock.
	Spread, Within time.Duration
}

// ChipTime is the time of one chip.
type ChipTime struct {
	Chip  *Chip
	After time.Duration // after the first chip
}

// clockGap is the time between the two readings that relate a chip's clock to the host's.
const clockGap = 20 * time.Millisecond

// Skew waits for the queues, replays the trace and returns the differences between the chips' ends of the replay, from time stamps
// of their dispatchers. Each chip's clock is read before and after to relate them. If the trace takes the same time on every chip,
// these are the differences of their starts. A call takes some tens of milliseconds.
func (s *Span) Skew(ctx context.Context) (*Skew, error) {
	fail := func(err error) (*Skew, error) {
		return nil, fmt.Errorf("mesh: skew of trace %q: %w", s.t.Name(), err)
	}
	type reading struct {
		first, last reprise.Clock
		event       *reprise.Event
	}
	at := make([]reading, len(s.chips))
	out := &Skew{}
	var errs []error
	clocks := func(put func(r *reading, c reprise.Clock)) error {
		for i, c := range s.chips {
			now, err := s.queue(c).Clock()
			if err != nil {
				return err
			}
			out.Within = max(out.Within, 2*now.Within)
			put(&at[i], now)
		}
		return nil
	}
	for i, c := range s.chips {
		if err := s.queue(c).Finish(ctx); err != nil {
			return fail(err)
		}
		at[i].event = c.Device.NewEvent("skew", reprise.Timed())
	}
	if err := clocks(func(r *reading, c reprise.Clock) { r.first = c }); err != nil {
		return fail(err)
	}
	if err := s.Replay(ctx); err != nil {
		return nil, err
	}
	for i, c := range s.chips {
		errs = append(errs, s.queue(c).Record(ctx, at[i].event))
	}
	for i := range s.chips {
		errs = append(errs, at[i].event.Synchronize(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fail(err)
	}
	if rest := clockGap - time.Since(at[0].first.Host); rest > 0 {
		select {
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-time.After(rest):
		}
	}
	if err := clocks(func(r *reading, c reprise.Clock) { r.last = c }); err != nil {
		return fail(err)
	}
	var first, last time.Duration
	for i, c := range s.chips {
		r := &at[i]
		cycles, ok := r.event.DeviceTime()
		if !ok || r.last.Cycles == r.first.Cycles {
			return fail(fmt.Errorf("chip %v: its clock stands still", c.Coord))
		}
		perCycle := float64(r.last.Host.Sub(r.first.Host)) / float64(r.last.Cycles-r.first.Cycles)
		when := r.first.Host.Sub(at[0].first.Host) + time.Duration(float64(int64(cycles-r.first.Cycles))*perCycle)
		if i == 0 {
			first, last = when, when
		}
		first, last = min(first, when), max(last, when)
		out.Chips = append(out.Chips, ChipTime{Chip: c, After: when})
	}
	for i := range out.Chips {
		out.Chips[i].After -= first
	}
	out.Spread = last - first
	return out, nil
}

// queue returns the queue of a chip that the trace runs on.
func (s *Span) queue(c *Chip) *reprise.Queue { return s.t.q.On(c) }

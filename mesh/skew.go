package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
)

// Skew is the time difference between the chips of a replay.
type Skew struct {
	Chips []ChipTime // in the order of the trace's parts
	// Spread is the time from the first chip to the last, Within the error bound: twice the
	// duration of the longest clock reading.
	Spread, Within time.Duration
}

// ChipTime is the time of one chip.
type ChipTime struct {
	Chip  *Chip
	After time.Duration
}

const clockGap = 20 * time.Millisecond

// Skew waits for the queues, replays a trace and returns the differences between the chips' ends of
// the replay, from time stamps of their dispatchers: if the trace takes equally long on every chip,
// those of the starts. A call takes some tens of milliseconds.
func (m *Mesh) Skew(ctx context.Context, t *reprise.Trace) (*Skew, error) {
	fail := func(err error) (*Skew, error) {
		return nil, fmt.Errorf("mesh: skew of trace %q: %w", t.Name(), err)
	}
	type reading struct {
		chip        *Chip
		queue       *reprise.Queue
		first, last dispatch.Clock
		event       *reprise.Event
	}
	var at []reading
	for _, p := range t.Parts() {
		i := slices.IndexFunc(m.chips, func(c *Chip) bool { return c.Device == p.Queue.Device() })
		if i < 0 {
			return fail(ErrWrongMesh)
		}
		at = append(at, reading{chip: m.chips[i], queue: p.Queue})
	}
	out := &Skew{}
	var errs []error
	clocks := func(put func(r *reading, c dispatch.Clock)) error {
		for i := range at {
			now, err := at[i].queue.Clock()
			if err != nil {
				return err
			}
			out.Within = max(out.Within, 2*now.Within)
			put(&at[i], now)
		}
		return nil
	}
	for i := range at {
		if err := at[i].queue.Wait(ctx); err != nil {
			return fail(err)
		}
		at[i].event = at[i].chip.Device.NewEvent("skew", reprise.Timed())
	}
	if err := clocks(func(r *reading, c dispatch.Clock) { r.first = c }); err != nil {
		return fail(err)
	}
	if err := t.Replay(ctx); err != nil {
		return nil, err
	}
	for i := range at {
		errs = append(errs, at[i].queue.Record(ctx, at[i].event))
	}
	for i := range at {
		errs = append(errs, at[i].event.Wait(ctx))
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
	if err := clocks(func(r *reading, c dispatch.Clock) { r.last = c }); err != nil {
		return fail(err)
	}
	var first, last time.Duration
	for i := range at {
		r := &at[i]
		cycles, ok := r.event.DeviceTime()
		if !ok || r.last.Cycles == r.first.Cycles {
			return fail(fmt.Errorf("chip %v: its clock stands still", r.chip.Coord))
		}
		perCycle := float64(r.last.Host.Sub(r.first.Host)) / float64(r.last.Cycles-r.first.Cycles)
		when := r.first.Host.Sub(at[0].first.Host) + time.Duration(float64(int64(cycles-r.first.Cycles))*perCycle)
		if i == 0 {
			first, last = when, when
		}
		first, last = min(first, when), max(last, when)
		out.Chips = append(out.Chips, ChipTime{Chip: r.chip, After: when})
	}
	for i := range out.Chips {
		out.Chips[i].After -= first
	}
	out.Spread = last - first
	return out, nil
}

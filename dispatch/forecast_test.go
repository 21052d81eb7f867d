package dispatch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/sim"
)

// Work that takes as long as before is expected then; other work isn't, nor work whose time varies, and none has a forecast before
// it was waited for twice.
func TestForecasts(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		took   []time.Duration
		unseen time.Duration // nobody looked for so long before the end
		want   time.Duration // 0: no forecast
	}{
		{name: "never", want: 0},
		{name: "once", took: []time.Duration{4 * ms}, want: 0},
		{name: "twice", took: []time.Duration{4 * ms, 4 * ms}, want: 4 * ms},
		{name: "nearly", took: []time.Duration{4 * ms, 41 * ms / 10, 39 * ms / 10, 4 * ms}, want: 4 * ms},
		{name: "seen late", took: []time.Duration{4 * ms, 4 * ms}, unseen: 2 * ms, want: 0},
		{name: "varies", took: []time.Duration{ms, 4 * ms, ms, 4 * ms, ms, 4 * ms}, want: 0},
		{name: "other work meanwhile", took: []time.Duration{4 * ms, 4 * ms, 4 * ms, 400 * ms}, want: 0},
		{name: "shorter from now on", took: append([]time.Duration{4 * ms, 4 * ms, 4 * ms, 4 * ms}, many(30, ms)...), want: ms},
		{name: "longer from now on", took: append([]time.Duration{4 * ms, 4 * ms, 4 * ms, 4 * ms}, many(30, 40*ms)...), want: 40 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f forecasts
			one, other := task{last: 0x1000, n: 3}, task{last: 0x1000, n: 4}
			for _, d := range c.took {
				f.learn(one, period{d - c.unseen/2, d + c.unseen/2})
			}
			got := f.get(one)
			if off := (got.mean - c.want).Abs(); off > c.want/20 || (c.want == 0) != (got.seen == 0) {
				t.Errorf("expected after %v, want %v", got.mean, c.want)
			}
			if got := f.get(other); got.seen != 0 {
				t.Errorf("a task that nobody waited for is expected after %v", got.mean)
			}
			f.learn(task{}, period{4 * ms, 4 * ms})
			f.learn(task{}, period{4 * ms, 4 * ms})
			if got := f.get(task{}); got.seen != 0 {
				t.Error("a wait of which nothing is known has a forecast")
			}
		})
	}
}

func many(n int, d time.Duration) (out []time.Duration) {
	for range n {
		out = append(out, d)
	}
	return out
}

// A wait whose end is expected sleeps until shortly before it, but no longer than it may be late, looks often around it, without a sleep
// if it is well known, and then as one of which nothing is known.
func TestNaps(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	f := forecast{seen: 2, mean: 4 * ms, spread: 100 * us}   // from 3.8 to 4.2 ms
	well := forecast{seen: 2, mean: 4 * ms, spread: 60 * us} // from 3.88 to 4.12 ms
	for _, c := range []struct {
		name          string
		forecast      forecast
		gone, longest time.Duration
		want          time.Duration
	}{
		{"at first", f, 0, 10 * ms, 3800 * us},
		{"at first, with little patience", f, 0, ms, ms},
		{"before", f, 3700 * us, ms, 100 * us},
		{"around", f, 3800 * us, ms, 25 * us},
		{"around, with very little patience", f, 4 * ms, 10 * us, 10 * us},
		{"after", f, 4200 * us, ms, minSleep},
		{"before, well known", well, 3800 * us, ms, 80 * us},
		{"around, well known", well, 3880 * us, ms, 0},
		{"still around, well known", well, 4119 * us, ms, 0},
		{"after, well known", well, 4120 * us, ms, minSleep},
	} {
		w := newWaiter(time.Hour, Pace{Longest: c.longest})
		w.expect(c.forecast)
		w.grown = min(minSleep, w.pace.Longest)
		if got := w.nap(w.begun.Add(c.gone)); got != c.want {
			t.Errorf("%s: sleeps %v, want %v", c.name, got, c.want)
		}
	}
	w := newWaiter(time.Hour, Pace{})
	w.expect(forecast{})
	w.grown = minSleep
	sum, naps := time.Duration(0), 0
	for sum < 16*ms {
		d := w.nap(w.begun.Add(sum))
		if d > minSleep+sum/16+us {
			t.Fatalf("a wait that lasts for %v sleeps %v", sum, d)
		}
		sum += d
		naps++
	}
	if naps > 75 {
		t.Errorf("16 ms are %d sleeps", naps)
	}
}

// A wait that polls around its expected end without sleeping still ends with its context, and if nothing moves for the limit.
func TestPollsAroundEnd(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		want  error
	}{{time.Hour, context.DeadlineExceeded}, {20 * time.Millisecond, ErrTimeout}} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		w := newWaiter(c.limit, Pace{})
		w.expect(forecast{seen: 2, mean: time.Hour})
		w.begun = w.begun.Add(-time.Hour)
		var err error
		for err == nil {
			if err = w.pause(ctx); w.rounds > yieldRounds && err == nil && w.sleep != 1 {
				t.Fatalf("slept %v", w.sleep)
			}
		}
		if !errors.Is(err, c.want) {
			t.Errorf("ended with %v, want %v", err, c.want)
		}
	}
}

// What a queue waits for is a task by what it was given last and by how much since the wait before.
func TestTasks(t *testing.T) {
	d := started(t, sim.Wormhole(), Options{})
	q := d.Queue(0)
	of := func(runs, replays int, name *string) task {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.stream.runs, q.stream.replays = q.stream.runs+uint16(runs), q.stream.replays+uint32(replays)
		q.history.last.Store(name)
		t, _ := q.taskLocked()
		return t
	}
	wait := func() {
		t.Helper()
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a, b := "a", "b"
	one := of(0, 1, &a)
	wait()
	if got := of(0, 1, &a); got != one {
		t.Errorf("the same replay after a wait is %v, and was %v", got, one)
	}
	for what, got := range map[string]task{"two replays": of(0, 1, &a), "nothing more": of(0, 0, &b), "a program more": of(1, 0, &a)} {
		if got == one {
			t.Errorf("%s is the task of one replay", what)
		}
	}
	wait()
	for range 3 {
		of(0, 1, &a)
		wait()
	}
	place := one.place()
	q.forecasts.mu.Lock()
	defer q.forecasts.mu.Unlock()
	if got := q.forecasts.of[place]; got.task != one || got.seen < 3 {
		t.Errorf("after three waits for it: %+v, want a forecast of %+v", got, one)
	}
}

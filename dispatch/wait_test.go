package dispatch

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/nap"
	"github.com/reprise-tt/reprise/sim"
)

func TestLongLooksAreNoHang(t *testing.T) {
	const limit = time.Hour // far longer than the test itself takes
	for _, took := range []time.Duration{0, limit / 16, limit / 4, limit, 100 * limit} {
		w := newWaiter(limit, Pace{}, new(nap.Sleeper))
		for w.sleep == 0 {
			must(t, w.pause(t.Context()))
		}
		end := w.deadline.Add(took)
		w.polled(took)
		if w.deadline != end {
			t.Errorf("a look of %v moves the end of the wait by %v", took, w.deadline.Sub(end)+took)
		}
		if next := time.Until(w.check); next > limit/2 || next < limit/checks-limit/100 {
			t.Errorf("after a look of %v the next one is due in %v", took, next)
		}
		if w.due() {
			t.Errorf("after a look of %v another one is due at once", took)
		}
		w.deadline = w.deadline.Add(-limit / 2)
		if err := w.pause(t.Context()); err != nil {
			t.Errorf("after a look of %v: %v", took, err)
		}
		w.progress()
		if w.polled(took); !w.deadline.IsZero() || !w.check.IsZero() {
			t.Errorf("a look of %v that saw something move begins a wait", took)
		}
	}
}

func TestShortestTimeoutEnds(t *testing.T) {
	w := newWaiter(time.Nanosecond, Pace{}, new(nap.Sleeper))
	for range yieldRounds + 1<<10 {
		if err := w.pause(t.Context()); err != nil {
			if !errors.Is(err, ErrTimeout) {
				t.Errorf("error %v, want %v", err, ErrTimeout)
			}
			return
		}
	}
	t.Error("it goes on and on")
}

func TestStoppedWaitsAreNoHang(t *testing.T) {
	const limit = time.Hour
	w := newWaiter(limit, Pace{}, new(nap.Sleeper))
	for w.sleep == 0 {
		must(t, w.pause(t.Context()))
	}
	for range 3 {
		w.asleep, w.deadline = w.asleep.Add(-2*limit), w.deadline.Add(-2*limit)
		if err := w.pause(t.Context()); err != nil {
			t.Fatalf("after a stop of twice the limit: %v", err)
		}
		if left := time.Until(w.deadline); left > limit || left < limit-limit/100 {
			t.Errorf("after a stop the wait ends in %v, of %v", left, limit)
		}
	}
	w.deadline = w.deadline.Add(-limit)
	if err := w.pause(t.Context()); !errors.Is(err, ErrTimeout) {
		t.Errorf("nothing has moved for the limit: %v", err)
	}
}

func TestWaitsLearn(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	always := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	sometimes := func(usually, seldom time.Duration) func(int) time.Duration {
		return func(i int) time.Duration {
			if i%13 == 12 {
				return seldom
			}
			return usually
		}
	}
	for _, c := range []struct {
		name       string
		took, late func(int) time.Duration // by wait, and by sleep
	}{
		{"4 ms", always(4 * ms), always(0)},
		{"4 ms, late sleeps", always(4 * ms), always(50 * us)},
		{"4 ms, very late sleeps", always(4 * ms), always(120 * us)},
		{"4 ms, some very late sleeps", always(4 * ms), sometimes(30*us, 300*us)},
		{"4 ms, nearly", func(i int) time.Duration { return 4*ms + time.Duration(i*7%11-5)*4*us }, always(30 * us)},
		{"4 ms, some later", sometimes(4*ms, 4200*us), always(30 * us)},
		{"4 ms, some much later", sometimes(4*ms, 4900*us), always(30 * us)},
		{"4 ms, once 5", func(i int) time.Duration { return 4*ms + ms*time.Duration(i/200%2) }, always(30 * us)},
		{"40 ms", always(40 * ms), always(50 * us)},
		{"40 ms, once 4", func(i int) time.Duration { return 4*ms + 36*ms*time.Duration(i/200%2) }, always(50 * us)},
	} {
		var f forecasts
		task := task{last: "a", n: 1}
		var late []time.Duration
		var took, polled time.Duration
		naps := 0
		for i := range 400 {
			w := newWaiter(time.Hour, Pace{}, nil)
			w.expect(f.get(task))
			w.grown = minSleep
			end, at, looked := c.took(i), time.Duration(0), time.Duration(0)
			for at < end {
				looked = at
				if d := w.nap(w.begun.Add(at), c.late(0)); d > 0 {
					at += d + c.late(naps)
					naps++
				} else {
					at += us
					polled += us
				}
			}
			f.learn(task, period{looked, at})
			late = append(late, at-end)
			took += at
		}
		slices.Sort(late)
		if p50, p90 := late[len(late)/2], late[len(late)*9/10]; p50 > 20*us || p90 > 100*us || polled > took/12 {
			t.Errorf("%s: late by %v, nine of ten by at most %v, polled for %.1f %%", c.name, p50, p90, 100*polled.Seconds()/took.Seconds())
		}
	}
}

func TestPollsAroundEnd(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		want  error
	}{{time.Hour, context.DeadlineExceeded}, {20 * time.Millisecond, ErrTimeout}} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		w := newWaiter(c.limit, Pace{}, new(nap.Sleeper))
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
		must(t, q.Wait(t.Context()))
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
	q.forecasts.mu.Lock()
	defer q.forecasts.mu.Unlock()
	if got := q.forecasts.find(one); got == nil || got.seen < 3 {
		t.Errorf("after three waits for it: %+v, want a forecast of %+v", got, one)
	}
}

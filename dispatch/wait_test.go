package dispatch

import (
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/nap"
)

// A look at the whole device that takes longer than a wait without progress may is no reason to give the wait up, and another
// one is due before that, to compare with.
func TestLongLooksAreNoHang(t *testing.T) {
	const limit = time.Hour // so long that what the test takes is nothing
	for _, took := range []time.Duration{0, limit / 16, limit / 4, limit, 100 * limit} {
		w := newWaiter(limit, Pace{}, new(nap.Sleeper))
		for w.sleep == 0 {
			if err := w.pause(t.Context()); err != nil {
				t.Fatal(err)
			}
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
		// It is no hang now, although the wait began that long ago.
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

// However short the timeout is, a wait ends.
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

// A wait whose process was stopped goes on afterwards: the queue wasn't watched meanwhile, so it is no hang. Without progress it
// ends all the same.
func TestStoppedWaitsAreNoHang(t *testing.T) {
	const limit = time.Hour
	w := newWaiter(limit, Pace{}, new(nap.Sleeper))
	for w.sleep == 0 {
		if err := w.pause(t.Context()); err != nil {
			t.Fatal(err)
		}
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

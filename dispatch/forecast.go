package dispatch

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Waits learn how long work takes that is waited for again and again: the replay of a trace, a step of a model. The next wait for
// the same work sleeps until shortly before its end and polls often around it, so that it sees the end within microseconds and
// sleeps for nearly all of the time. Work whose time varies is waited for as if it were new.

// A task is what a wait waits for: what the queue was given last, and how much since the wait before. The zero value is none, of
// which nothing is learned.
type task struct {
	last uintptr // of history.last, whose address tells programs and traces apart; it keeps nothing alive
	n    uint32  // programs and replays
}

// forecasts are those of a queue's waits. The zero value is ready to use.
type forecasts struct {
	waited atomic.Uint32 // programs and replays before the newest wait that succeeded

	mu sync.Mutex
	of [forecastCount]forecast
}

// forecastCount is how many tasks have one; others take their places.
const forecastCount = 32

// A forecast is how long a task takes.
type forecast struct {
	task   task
	seen   int           // times, at least; 0 if there is no forecast
	mean   time.Duration // of the newest ones, mostly
	spread time.Duration // mean distance from it, and half of the time in which nobody looked
}

// taskLocked returns what a wait for everything so far waits for, and how many programs and replays there were. mu is held.
func (q *Queue) taskLocked() (t task, total uint32) {
	total = q.stream.replays + uint32(q.stream.runs)
	return task{last: uintptr(unsafe.Pointer(q.history.last.Load())), n: total - q.forecasts.waited.Load()}, total
}

func (t task) place() int {
	return int((uint64(t.last)*0x9E3779B97F4A7C15 + uint64(t.n)*0xBF58476D1CE4E5B9) >> 32 % forecastCount)
}

// get returns the forecast of a task. It is the zero value if there is none, or if its times vary by more than a quarter.
func (f *forecasts) get(t task) forecast {
	if t == (task{}) {
		return forecast{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.of[t.place()]
	if c.task != t || c.seen < 2 || c.margin() > c.mean/4 {
		return forecast{}
	}
	return c
}

// margin is how far from mean most times are.
func (f *forecast) margin() time.Duration { return max(2*f.spread, f.mean/64) }

// A period is between two times after the begin of a wait: it had not ended then, and had now.
type period struct{ then, now time.Duration }

func (p period) middle() time.Duration { return (p.then + p.now) / 2 }

// unseen is how far from the middle the end was at most.
func (p period) unseen() time.Duration { return (p.now - p.then) / 2 }

// from is how far it is from d, negative if it was before. It is 0 if d is in it.
func (p period) from(d time.Duration) time.Duration { return max(p.then-d, 0) + min(p.now-d, 0) }

// learn takes in when a wait for a task ended.
func (f *forecasts) learn(t task, in period) {
	if t == (task{}) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.of[t.place()]
	if c.task != t {
		*c = forecast{task: t}
	}
	c.seen++
	switch early := c.mean - c.margin(); {
	case c.seen == 1:
		c.mean, c.spread = in.middle(), in.unseen()
	case c.seen == 2:
		off := in.middle() - c.mean
		c.mean, c.spread = c.mean+off/2, max(off.Abs(), in.unseen())
	case in.unseen() > c.margin() && in.then < early && early < in.now:
		// The last sleep was to end before the time in which the end is expected, and was too long, so where in it the end was isn't
		// known. If it is before that time, the next wait that looks earlier says so.
		c.mean -= c.margin() / 8
	default:
		off := in.from(c.mean)
		if most := 2 * c.margin(); off.Abs() < c.mean/4 {
			// A single end far from the others, such as one that came while other programs had the processor, says little of the next.
			off = min(max(off, -most), most)
		}
		c.mean += off / 4
		c.spread += (max(off.Abs(), in.unseen()/2) - c.spread) / 4
	}
}

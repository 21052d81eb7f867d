package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise/dispatch"
)

// Timeline is what the host and each queue of a device did, from [Device.StartTimeline] to [Timeline.Stop]: when calls
// were made, and when the device carried out what they had put into its queues.
//
// The device's times are stamps that its dispatchers take. A Timeline puts one behind every call that puts something
// into a queue. So as long as it runs, what is in one queue is carried out strictly one after the other, and each call
// costs the host some microseconds more. What different queues do still overlaps as it would otherwise.
type Timeline struct {
	d     *Device
	began time.Time
	stop  func()
	most  int // spans and stamps

	mu      sync.Mutex
	stopped bool
	host    []Span
	stamps  []stamp
	settled int               // stamps in front whose times are known
	clocks  []clockReading    // in the order of host time
	shift   []int64           // cycles by which a queue's clock is ahead of queue 0's
	begin   map[uint64]uint64 // of the calls that are under way
	dropped int
	err     error // the first one
}

// mostSpans bounds what a timeline keeps: a span takes some 200 bytes.
const mostSpans = 1 << 19

type clockReading struct {
	at     time.Time
	cycles uint64 // on queue 0's clock
}

// stamp is the end of what a call has put into a queue.
type stamp struct {
	span  Span
	event *dispatch.Event // gives the end; nil once it has
	lost  bool
	from  time.Duration // when the call was made
}

// Span is a piece of time in which the host or a queue did something.
type Span struct {
	Queue      int    // -1 for the host
	Kind       string // "write", "run", ... as the call that it belongs to, or "span" for what Timeline.Span recorded
	Name       string // of the buffer, program, trace or event
	Call       uint64 // number of the call; 0 for what Timeline.Span recorded
	Object     any    // of the call
	Start, End time.Duration
	// StartCycles and EndCycles are the device's own times, on the clock of queue 0: 0 for the host's spans. They say in
	// what order things were on the device; Start and End put them beside what the host did, as well as two clocks allow.
	StartCycles, EndCycles uint64
	failed                 bool
}

// Overlaps says whether two spans of queues overlap on the device.
func (s *Span) Overlaps(o *Span) bool {
	return s.StartCycles < o.EndCycles && o.StartCycles < s.EndCycles
}

// StartTimeline begins to record what the host and the queues do.
func (d *Device) StartTimeline(ctx context.Context) (*Timeline, error) {
	if err := d.usable("start timeline"); err != nil {
		return nil, err
	}
	t := &Timeline{d: d, began: time.Now(), begin: map[uint64]uint64{}, shift: make([]int64, len(d.queues)), most: mostSpans}
	if err := t.compareClocks(); err != nil {
		return nil, d.failed("start timeline", err)
	}
	for _, q := range d.queues {
		// The first span of a queue begins no earlier than here.
		if err := q.await(ctx); err != nil {
			return nil, d.failed("start timeline", err)
		}
	}
	if _, err := t.read(d.queues[0]); err != nil {
		return nil, d.failed("start timeline", err)
	}
	t.stop = d.Observe(t)
	return t, nil
}

// compareClocks finds out by how much the queues' clocks differ: not at all, unless readings that hem each other in say
// otherwise.
func (t *Timeline) compareClocks() error {
	const rounds = 8
	first := t.d.queues[0].q
	for i, q := range t.d.queues[1:] {
		low, high := int64(-1)<<62, int64(1)<<62
		for range rounds {
			before, err := first.Clock()
			if err != nil {
				return err
			}
			other, err := q.q.Clock()
			if err != nil {
				return err
			}
			after, err := first.Clock()
			if err != nil {
				return err
			}
			low = max(low, int64(other.Cycles-after.Cycles))
			high = min(high, int64(other.Cycles-before.Cycles))
		}
		if low > 0 || high < 0 {
			t.shift[i+1] = low + (high-low)/2
		}
	}
	return nil
}

// read reads the clock of a queue, on that of queue 0.
func (t *Timeline) read(q *Queue) (uint64, error) {
	c, err := q.q.Clock()
	if err != nil {
		return 0, err
	}
	cycles := c.Cycles - uint64(t.shift[q.ID()])
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.clocks); n == 0 || t.clocks[n-1].at.Before(c.Host) && t.clocks[n-1].cycles < cycles {
		t.clocks = append(t.clocks, clockReading{c.Host, cycles})
	}
	return cycles, nil
}

// Begin implements [Observer].
func (t *Timeline) Begin(_ context.Context, c *Call) {
	if !c.Kind.Queued() || len(c.Queues) == 0 {
		return
	}
	t.mu.Lock()
	room := t.room()
	t.mu.Unlock()
	if !room {
		return // nor for what the clock says
	}
	now, err := t.read(c.Queues[0])
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note(err)
	t.begin[c.ID] = now
}

// End implements [Observer].
func (t *Timeline) End(ctx context.Context, c *Call) {
	t.mu.Lock()
	now := t.begin[c.ID]
	delete(t.begin, c.ID)
	full := t.full()
	if !full {
		t.host = append(t.host, Span{
			Queue: -1, Kind: c.Kind.String(), Name: c.Name, Call: c.ID, Object: c.Object,
			Start: c.Start.Sub(t.began), End: c.End.Sub(t.began), failed: c.Err != nil,
		})
	}
	t.mu.Unlock()
	if full || c.Err != nil || !c.Kind.Queued() || c.Kind == CallRecord {
		return
	}
	for _, q := range c.Queues {
		e := t.d.disp.NewEvent("timeline", true)
		err := q.q.Record(context.WithoutCancel(ctx), e, 0)
		t.mu.Lock()
		t.note(err)
		if err == nil {
			t.stamps = append(t.stamps, stamp{
				span:  Span{Queue: q.ID(), Kind: c.Kind.String(), Name: c.Name, Call: c.ID, Object: c.Object, StartCycles: now},
				event: e, from: c.Start.Sub(t.began),
			})
		}
		t.settle()
		t.mu.Unlock()
	}
}

// room says whether there is room for a call. Called with mu held.
func (t *Timeline) room() bool { return !t.stopped && len(t.host)+len(t.stamps) < t.most }

// full says whether there is no room for a call, and counts it then. Called with mu held.
func (t *Timeline) full() bool {
	if t.room() {
		return false
	}
	t.dropped++
	return true
}

// note keeps the first error. Called with mu held.
func (t *Timeline) note(err error) { t.err = cmp.Or(t.err, err) }

// settle takes the times of stamps that are done, so that their events can go. Called with mu held.
func (t *Timeline) settle() {
	for ; t.settled < len(t.stamps) && t.stamps[t.settled].take(t.shift); t.settled++ {
	}
}

// take takes the time of a stamp if it is known.
func (s *stamp) take(shift []int64) bool {
	if s.event == nil {
		return true
	}
	at, ok := s.event.DeviceTime()
	if ok {
		s.span.EndCycles = at - uint64(shift[s.span.Queue])
		s.event = nil
	}
	return ok
}

// Span records that the host does something, until the returned function is called.
func (t *Timeline) Span(name string) (end func()) {
	start := time.Since(t.began)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.full() {
			t.host = append(t.host, Span{Queue: -1, Kind: "span", Name: name, Start: start, End: time.Since(t.began)})
		}
	}
}

// Stop waits for the queues and ends the recording. The error is the first thing that kept the timeline from being
// complete; what there is can still be written.
func (t *Timeline) Stop(ctx context.Context) error {
	t.stop()
	var errs []error
	for _, q := range t.d.queues {
		errs = append(errs, q.await(ctx))
	}
	_, err := t.read(t.d.queues[0])
	errs = append(errs, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	errs = append(errs, t.err)
	if t.stopped {
		return nil
	}
	t.stopped = true
	for i := range t.stamps {
		if !t.stamps[i].take(t.shift) { // lost in a Recover
			t.stamps[i].lost, t.stamps[i].event = true, nil
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("reprise: timeline: %w", err)
	}
	return nil
}

// Dropped returns how many calls a timeline had no room for.
func (t *Timeline) Dropped() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}

// Spans returns what the host did, then what each queue did, each in the order of their starts. Those of a queue never
// overlap. It is complete once Stop has returned.
func (t *Timeline) Spans() []Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.host)
	slices.SortStableFunc(out, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	for id := range t.d.queues {
		last, done := uint64(0), time.Duration(0)
		for _, s := range t.stamps {
			if s.span.Queue != id || s.lost || s.event != nil {
				continue
			}
			// It began behind what was in the queue before, and not before it was submitted.
			s.span.StartCycles = min(max(s.span.StartCycles, last), s.span.EndCycles)
			last = s.span.EndCycles
			// Clocks agree only so far: nothing is done before it is asked for, nor two things of a queue at once.
			s.span.Start = max(t.hostTime(s.span.StartCycles), s.from, done)
			s.span.End = max(t.hostTime(s.span.EndCycles), s.span.Start)
			done = s.span.End
			out = append(out, s.span)
		}
	}
	return out
}

// hostTime converts the device's time with the readings around it. Called with mu held.
func (t *Timeline) hostTime(cycles uint64) time.Duration {
	i, _ := slices.BinarySearchFunc(t.clocks, cycles, func(c clockReading, to uint64) int { return cmp.Compare(c.cycles, to) })
	i = min(max(i, 1), len(t.clocks)-1)
	if i < 1 { // a single reading
		return t.clocks[0].at.Sub(t.began)
	}
	a, b := t.clocks[i-1], t.clocks[i]
	rate := float64(b.at.Sub(a.at)) / float64(b.cycles-a.cycles)
	return a.at.Sub(t.began) + time.Duration(rate*(float64(cycles)-float64(a.cycles)))
}

package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
)

// Recorder records programs on one queue of each chip. Use it from one goroutine at a time.
type Recorder struct {
	m      *Mesh
	rs     []*reprise.Recorder
	others map[*Queue]*Recorder
}

type captureKey struct{}

// Capture records a trace with a part on every chip of the queue's mesh, and on those of the other
// queues, whose Recorders [Recorder.Queue] returns. record is called once; commands that are equal
// on several chips are kept once on the host. Chips without commands have no part. A replay starts
// all chips together. See [reprise.Queue.Capture] for restrictions, and [Queue.In] for replaying on
// some of the chips.
func (q *Queue) Capture(ctx context.Context, name string, record func(ctx context.Context, r *Recorder) error,
	others ...*Queue) (*reprise.Trace, error) {
	if err := q.m.usable("capture"); err != nil {
		return nil, err
	}
	if record == nil {
		return nil, fmt.Errorf("mesh: capture %q: no function to record with: it is nil", name)
	}
	all := append([]*Queue{q}, others...)
	var qs []*reprise.Queue
	for k, o := range all {
		if o == nil || o.m != q.m {
			return nil, fmt.Errorf("mesh: capture %q: queue %d of the list: %w", name, k, ErrWrongMesh)
		}
		for _, i := range q.m.here {
			qs = append(qs, o.qs[i])
		}
	}
	if len(qs) == 0 {
		return nil, fmt.Errorf("mesh: capture %q: %w: %v has no chip of this host", name, ErrWrongMesh, q.m)
	}
	t, err := qs[0].Capture(ctx, name, func(ctx context.Context, first *reprise.Recorder) error {
		byQueue := map[*Queue]*Recorder{}
		for _, o := range all {
			r := &Recorder{m: q.m, others: byQueue, rs: make([]*reprise.Recorder, len(q.m.chips))}
			for _, i := range q.m.here {
				r.rs[i] = first.On(o.qs[i])
			}
			byQueue[o] = r
		}
		return record(context.WithValue(ctx, captureKey{}, true), byQueue[q])
	}, qs[1:]...)
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	return t, nil
}

// Queue returns the Recorder of another queue of the capture, or nil.
func (r *Recorder) Queue(q *Queue) *Recorder { return r.others[q] }

// Equal chips share their commands if the first chip of the mesh records first.
func (r *Recorder) On(c *Chip) *reprise.Recorder { return on(r.m, c, r.rs) }

// Run records a program on its chips.
func (r *Recorder) Run(x *Executable) error {
	op := "record program"
	if x != nil {
		op = fmt.Sprintf("record program %q", x.name)
	}
	return r.eachOf(x, op, func(i int) error { return r.rs[i].Run(x.xs[i]) })
}

// Param names arguments of the last recorded run, on every chip of the program, for
// [reprise.Trace.Set]. Chips with parameters keep their own copy of the commands.
func (r *Recorder) Param(x *Executable, name string, args ...reprise.Arg) error {
	return r.eachOf(x, fmt.Sprintf("name parameter %q", name), func(i int) error { return r.rs[i].Param(name, args...) })
}

// ParamBuffer is Param for a buffer's address, for [reprise.Trace.SetBuffer] with [Buffer.All].
func (r *Recorder) ParamBuffer(x *Executable, name string, b *Buffer, args ...reprise.Arg) error {
	if err := b.of(r.m); err != nil {
		return fmt.Errorf("mesh: record: %w", err)
	}
	return r.eachOf(x, fmt.Sprintf("name parameter %q", name), func(i int) error {
		return r.rs[i].ParamBuffer(name, b.bufs[i], args...)
	})
}

// Record makes a point on every chip that other queues of the trace can wait for, with an event of
// the mesh.
func (r *Recorder) Record(e *Event) error { return r.mark("record", e, (*reprise.Recorder).Record) }

// WaitEvent makes later commands wait for an event of another queue of the trace, each chip for its
// own.
func (r *Recorder) WaitEvent(e *Event) error {
	return r.mark("wait for", e, (*reprise.Recorder).WaitEvent)
}

func (r *Recorder) mark(op string, e *Event, f func(*reprise.Recorder, *reprise.Event) error) error {
	if err := e.of(r.m); err != nil {
		return fmt.Errorf("mesh: %s: %w", op, err)
	}
	return r.each(fmt.Sprintf("%s event %q", op, e.name), func(i int) error { return f(r.rs[i], e.es[i]) })
}

func (r *Recorder) eachOf(x *Executable, op string, f func(i int) error) error {
	if err := x.of(r.m); err != nil {
		return fmt.Errorf("mesh: record: %w", err)
	}
	return r.each(op, func(i int) error {
		if x.xs[i] == nil {
			return nil
		}
		return f(i)
	})
}

func (r *Recorder) each(op string, f func(i int) error) error {
	for _, i := range r.m.here {
		if err := f(i); err != nil {
			errs := make([]error, len(r.rs))
			errs[i] = err
			return r.m.failure(op, errs)
		}
	}
	return nil
}

// LoadTrace makes a trace of this mesh from a file saved from a mesh of the same shape. See
// [reprise.Device.LoadTrace].
func (m *Mesh) LoadTrace(ctx context.Context, r io.Reader, opts ...reprise.LoadOption) (*reprise.Trace, error) {
	if err := m.usable("load trace"); err != nil {
		return nil, err
	}
	ds := m.devices()
	if len(ds) == 0 {
		return nil, fmt.Errorf("mesh: load trace: %w: %v has no chip of this host", ErrWrongMesh, m)
	}
	t, err := ds[0].LoadTrace(ctx, r, append(slices.Clip(opts), reprise.WithDevices(ds[1:]...))...)
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	return t, nil
}

// In returns the queues of this host's chips in a range, for [reprise.Trace.Subset] and the like.
func (q *Queue) In(r Range) ([]*reprise.Queue, error) {
	r, err := r.in(q.m.shape)
	if err != nil {
		return nil, err
	}
	var out []*reprise.Queue
	for c := range r.Coords() {
		i, _ := q.m.shape.Index(c)
		if q.qs[i] != nil {
			out = append(out, q.qs[i])
		}
	}
	return out, nil
}

// Loop is [reprise.Recorder.Loop] on every chip. Each chip counts for itself.
func (r *Recorder) Loop(n uint32, body func() error) error {
	return r.control("record a loop", func(i int, b []func() error) error { return r.rs[i].Loop(n, b[0]) }, body)
}

// While is [reprise.Recorder.While] on every chip. Each chip decides by its own word. Programs that
// wait for other chips, as collectives do, hang if the chips decide differently.
func (r *Recorder) While(cond func(c *Chip) reprise.Cond, limit uint32, body func() error) error {
	return r.control("record a loop", func(i int, b []func() error) error { return r.rs[i].While(cond(r.m.chips[i]), limit, b[0]) }, body)
}

// If is [reprise.Recorder.If] on every chip. Each chip decides by its own word, as for While.
func (r *Recorder) If(cond func(c *Chip) reprise.Cond, then, otherwise func() error) error {
	bodies := []func() error{then}
	if otherwise != nil {
		bodies = append(bodies, otherwise)
	}
	return r.control("record a branch", func(i int, b []func() error) error {
		return r.rs[i].If(cond(r.m.chips[i]), b[0], append(b, nil)[1])
	}, bodies...)
}

// Switch is [reprise.Recorder.Switch] on every chip.
func (r *Recorder) Switch(b *Buffer, offset int, bodies ...func() error) error {
	if err := b.of(r.m); err != nil {
		return r.m.failure("record a branch", []error{err})
	}
	return r.control("record a branch", func(i int, bs []func() error) error { return r.rs[i].Switch(b.bufs[i], offset, bs...) }, bodies...)
}

// Call is [reprise.Recorder.Call] of a trace that was captured on the same queue of every chip.
func (r *Recorder) Call(t *reprise.Trace) error {
	return r.each("record a call", func(i int) error { return r.rs[i].Call(t) })
}

// control records the same construct on all chips and calls each body once, when all chips are in
// it. The chips' constructs are coroutines that stop at the start of a body and continue at its
// end.
func (r *Recorder) control(op string, construct func(i int, bodies []func() error) error, bodies ...func() error) error {
	var ended error
	errs := make([]error, len(r.rs))
	next := make([]func() (int, bool), len(r.rs))
	for _, i := range r.m.here {
		bs := make([]func() error, len(bodies))
		pull, stop := iter.Pull(func(yield func(int) bool) {
			for k := range bodies {
				if bodies[k] == nil {
					continue
				}
				bs[k] = func() error {
					yield(k)
					return ended
				}
			}
			errs[i] = construct(i, bs)
		})
		defer stop()
		next[i] = pull
	}
	for {
		body, open := 0, 0
		for _, i := range r.m.here {
			if k, ok := next[i](); ok {
				body, open = k, open+1
			} else if errs[i] != nil {
				return r.m.failure(op, errs)
			}
		}
		if open == 0 {
			return nil
		}
		ended = bodies[body]()
	}
}

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

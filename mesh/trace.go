package mesh

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/reprise-tt/reprise"
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

// Such calls are refused on the caller's goroutine, so that the error names the caller's line.
func capturing(ctx context.Context) bool { return ctx.Value(captureKey{}) != nil }

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

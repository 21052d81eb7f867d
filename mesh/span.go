package mesh

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise"
)

// SpanningTrace is one trace over several queues of each chip.
type SpanningTrace struct {
	m     *Mesh
	name  string
	parts []atomic.Pointer[reprise.SpanningTrace] // by chip, nil once it is released
	mu    sync.Mutex                              // held while it is being released
}

// CaptureQueues records one trace over several queues of each chip. record is given a Recorder for each queue, in the order
// of queues; what is recorded runs at every replay on its queue, at the same time as the other queues' parts on that chip but
// for the edges that [Recorder.Record] and [Recorder.Wait] make. The queues have workers of their own, as
// reprise.WithQueueWorkers gives them, and every chip has a part on each. See [Queue.Capture] for everything else.
func (m *Mesh) CaptureQueues(ctx context.Context, name string, queues []*Queue, record func([]*Recorder) error) (*SpanningTrace, error) {
	if err := m.usable("capture"); err != nil {
		return nil, err
	}
	if record == nil {
		return nil, fmt.Errorf("mesh: capture %q: no function to record with: it is nil", name)
	}
	rs := make([]*Recorder, len(queues))
	for k, q := range queues {
		if q == nil || q.m != m {
			return nil, fmt.Errorf("mesh: capture %q: queue %d of the list: %w", name, k, ErrWrongMesh)
		}
		rs[k] = &Recorder{m: m, rs: make([]*reprise.Recorder, len(m.chips))}
	}
	t := &SpanningTrace{m: m, name: name, parts: make([]atomic.Pointer[reprise.SpanningTrace], len(m.chips))}
	// The captures of the chips lie in each other, so that all are open while the function runs.
	var inside func(i int) error
	inside = func(i int) error {
		if i == len(m.chips) {
			m.s.captures.Add(1)
			defer m.s.captures.Add(-1)
			return record(rs)
		}
		qs := make([]*reprise.Queue, len(queues))
		for k, q := range queues {
			qs[k] = q.qs[i]
		}
		part, err := m.chips[i].Device.CaptureQueues(ctx, name, qs, func(one []*reprise.Recorder) error {
			for k := range one {
				rs[k].rs[i] = one[k]
			}
			return inside(i + 1)
		})
		t.parts[i].Store(part)
		return err
	}
	if err := inside(0); err != nil {
		// Those inside of the one that failed were recorded already.
		return nil, errors.Join(fmt.Errorf("mesh: %w", err), t.release(context.WithoutCancel(ctx)))
	}
	return t, nil
}

// Record makes a point on every chip that other queues of a trace that spans queues can wait for. The event is one of the
// mesh.
func (r *Recorder) Record(e *Event) error {
	return r.edge("record", e, func(one *reprise.Recorder, ev *reprise.Event) error { return one.Record(ev) })
}

// Wait makes what is recorded from now on wait for an event of another queue of the same trace, on every chip for its own.
func (r *Recorder) Wait(e *Event) error {
	return r.edge("wait", e, func(one *reprise.Recorder, ev *reprise.Event) error { return one.Wait(ev) })
}

func (r *Recorder) edge(op string, e *Event, do func(*reprise.Recorder, *reprise.Event) error) error {
	if err := e.of(r.m); err != nil {
		return fmt.Errorf("mesh: %s: %w", op, err)
	}
	for i, one := range r.rs {
		if err := do(one, e.es[i]); err != nil {
			return r.m.failure(fmt.Sprintf("%s event %q", op, e.name), at(len(r.rs), i, err))
		}
	}
	return nil
}

// Name returns the trace's name.
func (t *SpanningTrace) Name() string { return t.name }

// On returns a chip's part; nil if the chip isn't part of the mesh, or the trace is released.
func (t *SpanningTrace) On(c *Chip) *reprise.SpanningTrace {
	if i := t.m.number(c); i >= 0 {
		return t.parts[i].Load()
	}
	return nil
}

// Replay runs the trace again on all queues of all chips, one chip after the other. It returns once the commands are in the
// issue rings. Of one chip either all queues get their parts or none. When a chip fails, those behind it get none: the error
// is an *Error with the state of each.
func (t *SpanningTrace) Replay(ctx context.Context) error {
	sys := t.m.s
	sys.start.Lock()
	defer sys.start.Unlock()
	for i := range t.parts {
		err := reprise.ErrReleased
		if p := t.parts[i].Load(); p != nil {
			err = p.Replay(ctx)
		}
		if err != nil {
			errs := at(len(t.parts), i, err)
			for k := i + 1; k < len(errs); k++ {
				errs[k] = ErrSkipped
			}
			return t.m.failure(fmt.Sprintf("replay trace %q", t.name), errs)
		}
	}
	return nil
}

// Release waits for the queues to finish and gives the trace's memory back on all chips. If it fails on some it can be called
// again for those.
func (t *SpanningTrace) Release(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.parts {
		if t.parts[i].Load() != nil {
			return t.release(ctx)
		}
	}
	return fmt.Errorf("mesh: release trace %q: %w", t.name, reprise.ErrReleased)
}

func (t *SpanningTrace) release(ctx context.Context) error {
	errs, failed := make([]error, len(t.parts)), false
	for i := range t.parts {
		p := t.parts[i].Load()
		if p == nil {
			continue
		}
		if errs[i] = p.Release(ctx); errs[i] != nil {
			failed = true
			continue
		}
		t.parts[i].Store(nil)
	}
	if !failed {
		return nil
	}
	return t.m.failure(fmt.Sprintf("release trace %q", t.name), errs)
}

package mesh

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
)

// Queue is a command queue of every chip of a mesh. Only events that the host waits for, barriers,
// and programs that wait for each other order the chips. Its methods may be called from any
// goroutine.
type Queue struct {
	m  *Mesh
	id int
	qs []*reprise.Queue
}

// Queue returns a command queue by number, from 0 up to Queues()-1.
func (m *Mesh) Queue(id int) *Queue { return m.queues[id] }

// Queues returns the number of command queues.
func (m *Mesh) Queues() int { return len(m.queues) }

// ID returns the queue's number.
func (q *Queue) ID() int { return q.id }

// Mesh returns the queue's mesh.
func (q *Queue) Mesh() *Mesh { return q.m }

// On returns the queue of a chip; nil if the chip isn't part of the mesh, or is another host's.
func (q *Queue) On(c *Chip) *reprise.Queue { return on(q.m, c, q.qs) }

// on returns a chip's object; nil for a chip of another mesh or host.
func on[T any](m *Mesh, c *Chip, all []*T) *T {
	if i := m.number(c); i >= 0 {
		return all[i]
	}
	return nil
}

func (q *Queue) ready(op string, of func(*Mesh) error) error {
	if err := q.m.usable(op); err != nil {
		return err
	}
	if err := of(q.m); err != nil {
		return fmt.Errorf("mesh: %s: %w", op, err)
	}
	return nil
}

// Write writes a whole buffer to all chips concurrently: its part of the tensor, or all data of a
// replicated buffer. It returns once the data is copied.
func (q *Queue) Write(ctx context.Context, b *Buffer, data []byte) error {
	if err := q.ready("write", b.of); err != nil {
		return err
	}
	if len(data) != b.Size() {
		return fmt.Errorf("mesh: write buffer %q: %d B of data, it has %d B", b.name, len(data), b.Size())
	}
	return q.m.each(ctx, fmt.Sprintf("write buffer %q", b.name), func(i int) error {
		part := data
		if b.lay != nil {
			part = b.lay.take(q.m.chips[i].Coord, data)
		}
		return q.qs[i].Write(ctx, b.bufs[i], 0, part)
	})
}

// Read reads a whole buffer after the queue's earlier commands, from all chips concurrently, and
// equal parts from the first chip only. Parts that only other hosts have stay unchanged in dst.
func (q *Queue) Read(ctx context.Context, b *Buffer, dst []byte) error {
	if err := q.ready("read", b.of); err != nil {
		return err
	}
	if len(dst) != b.Size() {
		return fmt.Errorf("mesh: read buffer %q: room for %d B, it has %d B", b.name, len(dst), b.Size())
	}
	return q.m.each(ctx, fmt.Sprintf("read buffer %q", b.name), func(i int) error {
		switch {
		case b.lay == nil && i == q.m.here[0]:
			return q.qs[i].Read(ctx, b.bufs[i], 0, dst)
		case b.lay == nil || !q.m.firstHere(b.lay, i):
			return nil
		}
		part, done := b.lay.target(q.m.chips[i].Coord, dst)
		if err := q.qs[i].Read(ctx, b.bufs[i], 0, part); err != nil {
			return err
		}
		done()
		return nil
	})
}

func (m *Mesh) firstHere(l *layout, i int) bool {
	for _, j := range m.here {
		differ := false
		for a, axis := range l.split {
			differ = differ || axis != Replicate && m.chips[i].Coord[a] != m.chips[j].Coord[a]
		}
		if !differ {
			return j == i
		}
	}
	return false
}

// Run puts a program into the queues of its chips and returns once the commands are in the issue
// rings. If a chip fails, later chips have no commands (ErrSkipped).
func (q *Queue) Run(ctx context.Context, x *Executable) error {
	if err := q.ready("run", x.of); err != nil {
		return err
	}
	for i, part := range x.xs {
		if part == nil {
			continue
		}
		if err := q.qs[i].Run(ctx, part); err != nil {
			errs := make([]error, len(x.xs))
			errs[i] = err
			for j := i + 1; j < len(errs); j++ {
				if x.xs[j] != nil {
					errs[j] = ErrSkipped
				}
			}
			return q.m.failure(fmt.Sprintf("run program %q", x.name), errs)
		}
	}
	return nil
}

// Wait waits until all chips have run the queue and all results are in memory.
func (q *Queue) Wait(ctx context.Context) error {
	if err := q.m.usable("wait for queue"); err != nil {
		return err
	}
	return q.m.each(ctx, "wait for queue", func(i int) error { return q.qs[i].Wait(ctx) })
}

// Record makes an event mark this place in the queue, on every chip.
func (q *Queue) Record(ctx context.Context, e *Event) error {
	return q.mark(ctx, "record", e, (*reprise.Queue).Record)
}

// WaitEvent holds the queue's later commands until the event's newest recording is done, each chip
// for its own.
func (q *Queue) WaitEvent(ctx context.Context, e *Event) error {
	return q.mark(ctx, "wait for", e, (*reprise.Queue).WaitEvent)
}

func (q *Queue) mark(ctx context.Context, op string, e *Event, f func(*reprise.Queue, context.Context, *reprise.Event) error) error {
	if err := q.ready(op, e.of); err != nil {
		return err
	}
	errs := make([]error, len(q.qs))
	for _, i := range q.m.here {
		errs[i] = f(q.qs[i], ctx, e.es[i])
	}
	return q.m.failure(fmt.Sprintf("%s event %q", op, e.name), errs)
}

// Event marks a place among the commands of a queue on every chip.
type Event struct {
	m    *Mesh
	name string
	es   []*reprise.Event
}

// NewEvent returns an event without a recording. The name is for errors.
func (m *Mesh) NewEvent(name string, opts ...reprise.EventOption) *Event {
	e := &Event{m: m, name: name, es: make([]*reprise.Event, len(m.chips))}
	for _, i := range m.here {
		e.es[i] = m.chips[i].Device.NewEvent(name, opts...)
	}
	return e
}

// Name returns the event's name.
func (e *Event) Name() string { return e.name }

// On returns the event of a chip; nil if the chip isn't part of the mesh, or is another host's.
func (e *Event) On(c *Chip) *reprise.Event { return on(e.m, c, e.es) }

// Wait waits until the event's newest recording is done on all chips.
func (e *Event) Wait(ctx context.Context) error {
	if e == nil {
		return errors.New("mesh: synchronize: no event: it is nil")
	}
	return e.m.each(ctx, fmt.Sprintf("synchronize with event %q", e.name), func(i int) error { return e.es[i].Wait(ctx) })
}

// Query reports whether the event's newest recording is done on all chips, without waiting.
func (e *Event) Query() (bool, error) {
	if e == nil {
		return false, errors.New("mesh: query: no event: it is nil")
	}
	all, errs := true, make([]error, len(e.es))
	for _, i := range e.m.here {
		done, err := e.es[i].Query()
		all, errs[i] = all && done, err
	}
	err := e.m.failure(fmt.Sprintf("query event %q", e.name), errs)
	return all && err == nil, err
}

func (e *Event) of(m *Mesh) error {
	switch {
	case e == nil:
		return errors.New("no event: it is nil")
	case e.m != m:
		return fmt.Errorf("event %q: %w: it is of %v", e.name, ErrWrongMesh, e.m)
	}
	return nil
}

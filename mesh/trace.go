package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise"
)

// Recorder records programs into a trace of a mesh. What it records must come from one goroutine at a time.
type Recorder struct {
	m  *Mesh
	rs []*reprise.Recorder
}

// Run records a program on the chips that have a part of it. An error also ends the capture.
func (r *Recorder) Run(x *Executable) error {
	if err := x.of(r.m); err != nil {
		return fmt.Errorf("mesh: record: %w", err)
	}
	for i, part := range x.xs {
		if part != nil {
			if err := r.rs[i].Run(part); err != nil {
				return r.m.failure(fmt.Sprintf("record program %q", x.name), at(len(x.xs), i, err))
			}
		}
	}
	return nil
}

// On returns the recorder of a chip's own part, for code that records on one chip; nil if the chip isn't part of the mesh.
// Chips that do the same share their commands if the first chip of the mesh records first.
func (r *Recorder) On(c *Chip) *reprise.Recorder {
	if i := r.m.number(c); i >= 0 {
		return r.rs[i]
	}
	return nil
}

// Param names arguments of the run that was recorded last, on every chip that has a part of it, so that Trace.Set can change
// them. Chips whose trace has parameters keep a copy of the commands each.
func (r *Recorder) Param(x *Executable, name string, args ...reprise.Arg) error {
	if err := x.of(r.m); err != nil {
		return fmt.Errorf("mesh: record: %w", err)
	}
	for i, part := range x.xs {
		if part != nil {
			if err := r.rs[i].Param(name, args...); err != nil {
				return r.m.failure(fmt.Sprintf("name parameter %q", name), at(len(x.xs), i, err))
			}
		}
	}
	return nil
}

// ParamBuffer is Param for arguments that hold the address of a buffer, which Trace.SetBuffer can change.
func (r *Recorder) ParamBuffer(x *Executable, name string, b *Buffer, args ...reprise.Arg) error {
	err := x.of(r.m)
	if err == nil {
		err = b.of(r.m)
	}
	if err != nil {
		return fmt.Errorf("mesh: record: %w", err)
	}
	for i, part := range x.xs {
		if part != nil {
			if err := r.rs[i].ParamBuffer(name, b.bufs[i], args...); err != nil {
				return r.m.failure(fmt.Sprintf("name parameter %q", name), at(len(x.xs), i, err))
			}
		}
	}
	return nil
}

// at returns n errors, of which the i-th is err.
func at(n, i int, err error) []error {
	errs := make([]error, n)
	errs[i] = err
	return errs
}

// Trace is a recorded sequence of programs on the chips of a mesh. It owns what it touches until Release.
type Trace struct {
	Span   // all chips
	m      *Mesh
	q      *Queue
	traces []*reprise.Trace // by chip; nil where nothing was recorded
	any    *reprise.Trace   // one of them

	mu   sync.Mutex
	gone []bool // by chip: released
}

// Span is the part of a Trace on some of its chips, to be replayed by itself.
type Span struct {
	t     *Trace
	chips []*Chip
	salvo *reprise.Salvo
}

// Capture records what record puts into the Recorder as one trace over all chips of the queue's mesh. Nothing runs. The
// function is called once; commands that are equal on several chips are kept once on the host. Chips that nothing is recorded
// for have no part in the trace. See [reprise.Queue.Capture] for what can't be done meanwhile.
func (q *Queue) Capture(ctx context.Context, name string, record func(*Recorder) error) (*Trace, error) {
	if err := q.m.usable("capture"); err != nil {
		return nil, err
	}
	if record == nil {
		return nil, fmt.Errorf("mesh: capture %q: no function to record with: it is nil", name)
	}
	ts, err := q.captureAll(ctx, name, func(rs []*reprise.Recorder) error {
		return record(&Recorder{m: q.m, rs: rs})
	})
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	t := &Trace{m: q.m, q: q, traces: ts, gone: make([]bool, len(ts))}
	t.any = ts[slices.IndexFunc(ts, func(t *reprise.Trace) bool { return t != nil })]
	s, err := t.span(func(int) bool { return true })
	if err != nil {
		return nil, errors.Join(err, t.Release(context.WithoutCancel(ctx)))
	}
	t.Span = *s
	return t, nil
}

func (q *Queue) captureAll(ctx context.Context, name string, record func([]*reprise.Recorder) error) ([]*reprise.Trace, error) {
	return reprise.CaptureAll(ctx, q.qs, name, func(rs []*reprise.Recorder) error {
		q.m.s.captures.Add(1)
		defer q.m.s.captures.Add(-1)
		return record(rs)
	})
}

// span returns the trace on those of the chips that it has a part on.
func (t *Trace) span(of func(i int) bool) (*Span, error) {
	s := &Span{t: t}
	var ts []*reprise.Trace
	for i, one := range t.traces {
		if one != nil && of(i) {
			s.chips, ts = append(s.chips, t.m.chips[i]), append(ts, one)
		}
	}
	if len(ts) == 0 {
		return nil, fmt.Errorf("mesh: trace %q: %w", t.Name(), errNoPart)
	}
	var err error
	if s.salvo, err = reprise.NewSalvo(ts); err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	return s, nil
}

var errNoPart = errors.New("nothing was recorded for these chips")

// Replay runs the trace again on the chips of the span, which start together. It returns once the commands are in the issue
// rings and allocates nothing. When a chip can't take its part, none gets one (ErrSkipped); when a chip stops in the middle,
// the others have theirs. The error is an *Error with the state of each chip of the span.
func (s *Span) Replay(ctx context.Context) error {
	sys := s.t.m.s
	sys.start.Lock()
	defer sys.start.Unlock()
	errs := s.salvo.Replay(ctx)
	if errs == nil {
		return nil
	}
	for i, err := range errs {
		if errors.Is(err, reprise.ErrUnsent) {
			errs[i] = ErrSkipped
		}
	}
	return failure(fmt.Sprintf("replay trace %q", s.t.Name()), s.chips, errs)
}

// Chips returns the chips of the span.
func (s *Span) Chips() []*Chip { return append([]*Chip(nil), s.chips...) }

// Part returns the trace on the chips of a range alone.
func (t *Trace) Part(r Range) (*Span, error) {
	r, err := r.in(t.m.shape)
	if err != nil {
		return nil, err
	}
	return t.span(func(i int) bool { return r.Contains(t.m.chips[i].Coord) })
}

// Name returns the trace's name.
func (t *Trace) Name() string { return t.any.Name() }

// On returns the trace of a chip; nil if the chip isn't part of the mesh.
func (t *Trace) On(c *Chip) *reprise.Trace {
	if i := t.m.number(c); i >= 0 {
		return t.traces[i]
	}
	return nil
}

// Set gives a parameter a value from the next replay on, on all chips that have one of that name.
func (t *Trace) Set(name string, v uint32) error {
	return t.set(name, func(i int) error { return t.traces[i].Set(name, v) })
}

// SetBuffer is Set for the address of a buffer.
func (t *Trace) SetBuffer(name string, b *Buffer) error {
	if err := b.of(t.m); err != nil {
		return fmt.Errorf("mesh: trace %q: set buffer %q: %w", t.Name(), name, err)
	}
	return t.set(name, func(i int) error { return t.traces[i].SetBuffer(name, b.bufs[i]) })
}

func (t *Trace) set(name string, set func(i int) error) error {
	errs, found := make([]error, len(t.traces)), false
	for i, one := range t.traces {
		if one == nil {
			continue
		}
		if err := set(i); !errors.Is(err, reprise.ErrNoParam) {
			found, errs[i] = true, err
		}
	}
	if !found {
		return fmt.Errorf("mesh: trace %q: set parameter %q: %w", t.Name(), name, reprise.ErrNoParam)
	}
	return t.m.failure(fmt.Sprintf("set parameter %q", name), errs)
}

// Size returns the bytes of device memory that the trace takes on each chip, the most if they differ.
func (t *Trace) Size() int {
	n := 0
	for _, one := range t.traces {
		if one != nil {
			n = max(n, one.Size())
		}
	}
	return n
}

// Streams returns how many different streams of commands the host keeps, and their bytes.
func (t *Trace) Streams() (n, bytes int) {
	for i, one := range t.traces {
		shared := one == nil
		for _, o := range t.traces[:i] {
			shared = shared || o != nil && one.SharesCommands(o)
		}
		if !shared {
			n, bytes = n+1, bytes+one.Size()
		}
	}
	return n, bytes
}

// Release waits for the queues and gives the trace's memory back on all chips. If it fails on some it can be called again
// for those.
func (t *Trace) Release(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.gone, false) {
		return fmt.Errorf("mesh: release trace %q: %w", t.Name(), reprise.ErrReleased)
	}
	return t.m.each(fmt.Sprintf("release trace %q", t.Name()), func(i int) error {
		if t.gone[i] {
			return nil
		}
		if t.traces[i] != nil {
			if err := t.traces[i].Release(ctx); err != nil {
				return err
			}
		}
		t.gone[i] = true
		return nil
	})
}

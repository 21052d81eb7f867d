package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// SpanningTrace is one recorded trace with a part on each of several queues, and edges between the parts: what was
// recorded behind a [Recorder.Wait] runs, at every replay, behind what was recorded before the [Recorder.Record] of the
// same event. It owns what it touches until Release.
type SpanningTrace struct {
	d     *Device
	name  string
	parts []*Trace // by queue; only their memory and commands are used, they are replayed by span
	span  *dispatch.Span

	mu       sync.Mutex // held while it is released
	released int        // parts
}

// span is what the recorders of a capture over several queues share.
type span struct {
	queues []*Queue

	mu       sync.Mutex
	recorded []uint32 // recordings so far, by queue
	newest   map[*Event]edge
}

// edge is a recording inside a capture.
type edge struct {
	queue  int
	number uint32 // among the recordings of the queue's part
}

var (
	errOneQueue = fmt.Errorf("this capture is of one queue, where everything is in order anyway: use Device.CaptureQueues: %w", ErrInCapture)
	errOutside  = fmt.Errorf("it wasn't recorded in this capture, and a replay can't wait for what happens outside: wait on the queues before the replay: %w", ErrInCapture)
)

// Record records an event into a capture over several queues ([Device.CaptureQueues]): a place that a Wait in another
// queue's part can refer to, by the newest recording at that moment. The event's recordings outside of the capture are
// untouched. An error also ends the capture.
func (r *Recorder) Record(e *Event) error {
	return r.edge(opRecord, e, func() error {
		s := r.span
		s.recorded[r.q.ID()]++
		at := edge{queue: r.q.ID(), number: s.recorded[r.q.ID()]}
		s.newest[e] = at
		return r.add("record event", e, tracebuf.Edge{Kind: tracebuf.EdgeRecord, Number: at.number})
	})
}

// Wait holds what is recorded into this queue's part from now on, at every replay, until the place of the event's newest
// recording in this capture is reached: everything before it has run and all its results are in memory. An event that
// wasn't recorded in this capture can't be waited for. An error also ends the capture.
func (r *Recorder) Wait(e *Event) error {
	return r.edge(opWait, e, func() error {
		at, ok := r.span.newest[e]
		if !ok {
			return errOutside
		}
		if at.queue == r.q.ID() {
			return nil // it is before this place anyway
		}
		return r.add("wait for event", e, tracebuf.Edge{Kind: tracebuf.EdgeWait, Queue: at.queue, Number: at.number})
	})
}

// edge checks what can be checked of a Record or a Wait, and turns its error into the capture's.
func (r *Recorder) edge(op captureOp, e *Event, do func() error) error {
	what := op.what()
	err := func() error {
		if e == nil {
			return errors.New("no event: it is nil")
		}
		what = fmt.Sprintf("%s %q", what, e.Name())
		if e.d != r.d {
			return ErrForeign
		}
		if r.span == nil {
			return errOneQueue
		}
		r.span.mu.Lock()
		defer r.span.mu.Unlock()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.ended {
			return ErrCaptureEnded
		}
		return do()
	}()
	if err != nil {
		return r.refused(what, err)
	}
	return nil
}

// add records an edge. Called with mu held.
func (r *Recorder) add(what string, e *Event, edge tracebuf.Edge) error {
	cmds, err := r.q.edge(nil, r.span.peers(r.q), edge, r.state.Expected)
	if err == nil {
		r.rec.AddEdge(what+" "+e.Name(), edge, cmds)
	}
	return err
}

// edge appends the commands of an edge of a part of the queue.
func (q *Queue) edge(dst []byte, peers []tracebuf.Peer, e tracebuf.Edge, expected cq.Count) ([]byte, error) {
	return tracebuf.AppendEdge(dst, cq.Layout(q.d.Arch()), uint16(q.d.disp.Chip().Params().Stream.FirstDispatch), q.dispatcher(), peers, e, uint32(expected))
}

func (q *Queue) dispatcher() tracebuf.Dispatcher {
	return tracebuf.Dispatcher{Queue: q.ID(), Core: q.q.DispatchCore(), Word: q.q.SpanWord()}
}

// peers are the other queues of the capture, with their recordings so far.
func (s *span) peers(q *Queue) []tracebuf.Peer {
	var out []tracebuf.Peer
	for _, o := range s.queues {
		if o != q {
			out = append(out, tracebuf.Peer{Dispatcher: o.dispatcher(), Recorded: s.recorded[o.ID()]})
		}
	}
	return out
}

// CaptureQueues records one trace over several queues. record is given a Recorder for each queue, in the order of
// queues; what is recorded runs at every replay on its queue, at the same time as the other queues' parts but for the
// edges that [Recorder.Record] and [Recorder.Wait] make. The queues must have workers of their own
// ([WithQueueWorkers]). Everything else is as with [Queue.Capture].
func (d *Device) CaptureQueues(ctx context.Context, name string, queues []*Queue, record func(rs []*Recorder) error) (*SpanningTrace, error) {
	if d.watch.on.Load() == nil {
		return d.captureQueues(ctx, name, queues, record)
	}
	var t *SpanningTrace
	call := &Call{Kind: CallCapture, Queues: queues, Name: name}
	err := d.observed(ctx, call, func() (err error) {
		if t, err = d.captureQueues(ctx, name, queues, record); err == nil {
			call.Object, call.Bytes = t, t.Size()
		}
		return err
	})
	return t, err
}

func (d *Device) captureQueues(ctx context.Context, name string, queues []*Queue, record func(rs []*Recorder) error) (*SpanningTrace, error) {
	if err := d.spannable(name, queues, record == nil); err != nil {
		return nil, err
	}
	s := &span{queues: queues, recorded: make([]uint32, len(d.queues)), newest: map[*Event]edge{}}
	var rs []*Recorder
	for _, q := range queues {
		r, err := q.record(name, false)
		if err != nil {
			for _, r := range rs {
				_ = r.close(err)
			}
			return nil, err
		}
		r.span = s
		rs = append(rs, r)
	}
	if err := callAll(rs, record); err != nil {
		return nil, err
	}
	var parts []*Trace
	for i, r := range rs {
		part, err := r.part(ctx)
		if err != nil {
			for _, later := range rs[i+1:] {
				err = errors.Join(err, later.t.drop())
			}
			return nil, errors.Join(err, discardAll(ctx, parts))
		}
		parts = append(parts, part)
	}
	t := &SpanningTrace{d: d, name: name, parts: parts}
	if err := t.join(); err != nil {
		return nil, errors.Join(fmt.Errorf("reprise: capture %q: %w", name, err), discardAll(ctx, parts))
	}
	return t, nil
}

// join makes one trace of its parts.
func (t *SpanningTrace) join() (err error) {
	prepared := map[int]*dispatch.Prepared{}
	for _, p := range t.parts {
		p.spans = true
		prepared[p.q.ID()] = &p.prep
	}
	t.span, err = t.d.disp.NewSpan(prepared)
	return err
}

// discardAll discards the parts of what can't become a trace.
func discardAll(ctx context.Context, parts []*Trace) error {
	var errs []error
	for _, p := range parts {
		errs = append(errs, p.discard(ctx))
	}
	return errors.Join(errs...)
}

// spannable says whether a trace can span queues.
func (d *Device) spannable(name string, queues []*Queue, noFunc bool) error {
	if err := d.usable("capture"); err != nil {
		return err
	}
	fail := func(format string, a ...any) error {
		return fmt.Errorf("reprise: capture %q: %w", name, fmt.Errorf(format, a...))
	}
	if noFunc {
		return fail("no function to record with: it is nil")
	}
	if len(queues) < 2 {
		return fail("%d queues: a trace that spans queues has at least two: use Queue.Capture for one", len(queues))
	}
	for i, q := range queues {
		if q == nil || q.d != d {
			return fail("queue %d of the list: %w", i, ErrForeign)
		}
		for _, o := range queues[:i] {
			if o == q {
				return fail("queue %d is given twice", q.ID())
			}
			if o.Workers().Overlaps(q.Workers()) {
				return fail("queues %d and %d start the same workers, which pass between queues only as a whole, behind a replay: give them workers of their own with WithQueueWorkers", o.ID(), q.ID())
			}
		}
	}
	return nil
}

// callAll has a function record into several recorders, and ends their captures whatever becomes of it.
func callAll(rs []*Recorder, record func([]*Recorder) error) (err error) {
	cause := errPanicked
	defer func() {
		for _, r := range rs {
			r.mu.Lock()
			err = cmp.Or(err, r.err)
			r.mu.Unlock()
		}
		if err == nil && cause != nil {
			err = fmt.Errorf("reprise: capture %q: %w", rs[0].name, cause)
		}
		for _, r := range rs {
			_ = r.close(err) // with the error that is returned
		}
	}()
	var inside func(i int) error
	inside = func(i int) error {
		if i == len(rs) {
			return record(rs)
		}
		return spell(rs[i].mark, markBits, func() error { return inside(i + 1) })
	}
	cause = inside(0)
	return nil
}

// part ends the queue's part and makes a trace of it.
func (r *Recorder) part(ctx context.Context) (*Trace, error) {
	if len(r.rec.Steps()) == 0 {
		return nil, errors.Join(fmt.Errorf("reprise: capture %q: queue %d: %w", r.name, r.q.ID(), ErrEmptyTrace), r.t.drop())
	}
	end := tracebuf.Edge{Kind: tracebuf.EdgeEnd}
	cmds, err := r.q.edge(nil, r.span.peers(r.q), end, r.state.Expected)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reprise: capture %q: queue %d: %w", r.name, r.q.ID(), err), r.t.drop())
	}
	if len(cmds) > 0 {
		r.rec.AddEdge("end of the part", end, cmds)
	}
	return r.finish(ctx)
}

// Replay runs the trace again on all its queues. It returns once the commands are in the issue rings; either all parts are
// there then or none. The parts of two replays don't overlap across queues: a queue's part begins when the other queues'
// parts of the replay before are done. It allocates nothing.
func (t *SpanningTrace) Replay(ctx context.Context) error {
	if t.d.watch.on.Load() != nil {
		return t.d.observed(ctx, &Call{Kind: CallReplay, Queues: t.inOrder(), Name: t.name, Object: t}, func() error { return t.replay(ctx) })
	}
	return t.replay(ctx)
}

func (t *SpanningTrace) replay(ctx context.Context) error {
	if t.d.captures.open.Load() != nil {
		for _, part := range t.parts {
			if err := t.d.refuse(part.q, opReplay, t.name); err != nil {
				return err
			}
		}
	}
	err := t.flush(ctx)
	if err == nil {
		err = t.span.Submit(ctx)
	}
	if err != nil {
		if errors.Is(err, dispatch.ErrRevoked) {
			err = ErrReleased
		}
		return t.d.failed(fmt.Sprintf("replay trace %q", t.name), err)
	}
	return nil
}

// Release waits for the queues to finish and gives the trace's memory back, and that of the buffers and kernels that
// nobody else holds. If it fails it can be called again. While the trace is being stepped through, split, checked or
// bisected the error is ErrReserved, also for who does it from inside.
func (t *SpanningTrace) Release(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.parts) > 0 && t.released == len(t.parts) {
		return fmt.Errorf("reprise: release trace %q: %w", t.name, ErrReleased)
	}
	for t.released < len(t.parts) {
		if err := t.parts[t.released].Release(ctx); err != nil {
			return err
		}
		t.released++
	}
	return nil
}

// Name returns the trace's name.
func (t *SpanningTrace) Name() string { return t.name }

// Queues returns the queues that the trace has parts on.
func (t *SpanningTrace) Queues() []*Queue {
	var out []*Queue
	for _, part := range t.parts {
		out = append(out, part.q)
	}
	return out
}

// inOrder returns the queues by their numbers.
func (t *SpanningTrace) inOrder() []*Queue {
	return slices.SortedFunc(slices.Values(t.Queues()), func(a, b *Queue) int { return cmp.Compare(a.ID(), b.ID()) })
}

// Size returns the bytes of device memory that the trace takes, over all banks.
func (t *SpanningTrace) Size() int {
	n := 0
	for _, part := range t.parts {
		n += part.Size()
	}
	return n
}

// Steps returns what was recorded on a queue: programs, recordings and waits.
func (t *SpanningTrace) Steps(q *Queue) []tracebuf.Step {
	if i := slices.IndexFunc(t.parts, func(p *Trace) bool { return p.q == q }); i >= 0 {
		return t.parts[i].Steps()
	}
	return nil
}

// Print writes the commands of all parts as text.
func (t *SpanningTrace) Print(w io.Writer) error {
	for _, part := range t.parts {
		if _, err := fmt.Fprintf(w, "queue %d:\n", part.q.ID()); err != nil {
			return err
		}
		if err := part.Print(w); err != nil {
			return err
		}
	}
	return nil
}

package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Trace is a recorded sequence of programs in device memory, with a part for each queue that it was
// captured on, of one device or several. The kernels and buffers of its programs stay allocated
// until Release. Its methods may be called from any goroutine.
type Trace struct {
	name   string
	parts  []*part   // in the order of the capture's queues
	on     []*Device // of the capture, in order, also those without a part; nil for a single one
	batch  *dispatch.Batch
	calls  []deviceCall
	single *part  // the only part, if it has no callees
	whole  *Trace // origin of a Subset; nil for a whole trace
	use    use

	one singlePart
}

type singlePart struct {
	part     part
	batch    dispatch.Batch
	image    tracebuf.Image
	parts    [1]*part
	calls    [1]deviceCall
	programs [1]*Executable
	kept     [2]any
	steps    [1]tracebuf.Step
	replay   [256]byte
}

func (t *Trace) finishOne(name string) (*Trace, error) {
	p := &t.one.part
	t.name = name
	t.one.parts[0], t.one.calls[0] = p, deviceCall{p.q.d, p.q.self}
	t.parts, t.calls = t.one.parts[:], t.one.calls[:]
	t.setSingle()
	t.batch = &t.one.batch
	return t, t.batch.Init(&p.prep)
}

func newTrace(name string, parts []*part, on []*Device) (*Trace, error) {
	t := &Trace{name: name, parts: parts, on: on, calls: callsOf(queuesOf(parts))}
	t.setSingle()
	prepared := make([]*dispatch.Prepared, len(parts))
	for i, p := range parts {
		p.several = len(parts) > 1
		prepared[i] = &p.prep
	}
	var err error
	t.batch, err = dispatch.NewBatch(prepared...)
	return t, err
}

func (t *Trace) setSingle() {
	if len(t.parts) == 1 && len(t.parts[0].called()) == 0 {
		t.single = t.parts[0]
	}
}

func queuesOf(parts []*part) []*Queue {
	if len(parts) == 1 {
		return parts[0].q.self
	}
	out := make([]*Queue, len(parts))
	for i, p := range parts {
		out[i] = p.q
	}
	return out
}

func (t *Trace) devices() []*Device {
	if t.on != nil {
		return t.on
	}
	return []*Device{t.parts[0].q.d}
}

func devicesOf(queues []*Queue) []*Device {
	var out []*Device
	for _, q := range queues {
		if !slices.Contains(out, q.d) {
			out = append(out, q.d)
		}
	}
	return out
}

func (t *Trace) owner() *Trace {
	if t.whole != nil {
		return t.whole
	}
	return t
}

// Replay runs the trace again. It returns once the commands are in the issue rings; Queue.Wait
// waits for the device. Replay allocates nothing.
//
// The parts of a trace start together, within the time of one store per queue. Either all queues
// take their part or none. Then the error of a trace over several devices is a *PartsError, with
// ErrSkipped for the parts that nothing is wrong with. If a device stops in the middle, the others
// still have their parts.
//
// On one device the parts of two replays don't overlap across queues: a part begins when the other
// queues' parts of the previous replay are done. An *dispatch.OverlapError is as for [Queue.Run].
func (t *Trace) Replay(ctx context.Context) error {
	if p := t.single; p != nil && p.q.d.fastPath() && !p.params.changed.Load() {
		if err := t.batch.Submit(ctx); err != nil {
			return t.replayError(err)
		}
		return nil
	}
	for i := range t.calls {
		if t.calls[i].d.watched() {
			return t.replayObserved(ctx)
		}
	}
	return t.replay(ctx)
}

func (t *Trace) replayObserved(ctx context.Context) (err error) {
	begun := beginAll(ctx, t.calls, func(i int) *Call {
		c := &t.calls[i]
		return &Call{Kind: CallReplay, Queues: c.queues, Name: t.name, Object: t, Bytes: t.sum(c.d, (*part).replaySize)}
	})
	defer endAll(ctx, begun, nil, &err)
	return t.replay(ctx)
}

func (t *Trace) replay(ctx context.Context) error {
	changed := false
	for _, p := range t.parts {
		for _, o := range p.called() {
			if err := o.flushAll(ctx); err != nil {
				return t.replayError(err)
			}
		}
		if p.q.d.capturing.Load() != 0 {
			if err := p.q.d.refuse(ctx, p.q, opReplay, t.name); err != nil {
				return err
			}
		}
		changed = changed || p.params.changed.Load()
	}
	if changed && len(t.parts) == 1 {
		return t.replayError(t.parts[0].flush(ctx, true))
	}
	if changed {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	return t.replayError(t.batch.Submit(ctx))
}

func (t *Trace) replayError(err error) error {
	if err == nil {
		return nil
	}
	var each *dispatch.BatchError
	if errors.As(err, &each) {
		errs := slices.Clone(each.Errs)
		for i, p := range t.parts {
			if errs[i] != nil && errs[i] != ErrSkipped {
				errs[i] = p.replayError(errs[i])
			}
		}
		return t.partsError("replay", errs)
	}
	return t.parts[0].replayError(err)
}

func (t *Trace) flush(ctx context.Context) error {
	for i, p := range t.parts {
		if !p.params.changed.Load() {
			continue
		}
		if err := p.replayError(p.flush(ctx, false)); err != nil {
			if len(t.calls) == 1 {
				return err
			}
			errs := slices.Repeat([]error{ErrSkipped}, len(t.parts))
			errs[i] = err
			return t.partsError("replay", errs)
		}
	}
	return nil
}

// Subset returns the parts of a trace that are on some queues, to be replayed, saved or inspected
// alone. Queues without a part are ignored. Of a device with several queues it takes all or none.
// The whole trace owns the memory; a Subset is never released.
func (t *Trace) Subset(queues ...*Queue) (*Trace, error) {
	in := func(q *dispatch.Queue) bool {
		return slices.ContainsFunc(queues, func(o *Queue) bool { return o != nil && o.q == q })
	}
	s := &Trace{name: t.name, whole: t.owner()}
	for _, p := range t.parts {
		if in(p.q.q) {
			s.parts = append(s.parts, p)
		}
	}
	var err error
	if len(s.parts) == 0 {
		err = errors.New("nothing was recorded for these queues")
	} else {
		s.batch, err = t.batch.Subset(in)
	}
	if err != nil {
		return nil, fmt.Errorf("reprise: subset of trace %q: %w", t.name, err)
	}
	s.calls, s.on = callsOf(queuesOf(s.parts)), devicesOf(queuesOf(s.parts))
	s.setSingle()
	return s, nil
}

// Release waits for the queues, replays included, and frees the trace's memory and the buffers and
// kernels that nothing else holds. Traces may be released in any order. After an error Release can
// be called again. The error is ErrReserved while the trace is being stepped through, split,
// checked or bisected, also for a call from inside.
func (t *Trace) Release(ctx context.Context) (err error) {
	begun := beginAll(ctx, t.calls, func(i int) *Call {
		return &Call{Kind: CallReleaseTrace, Queues: t.calls[i].queues, Name: t.name, Object: t}
	})
	defer endAll(ctx, begun, nil, &err)
	if t.whole != nil {
		return fmt.Errorf("reprise: release trace %q: it is a subset: release the trace that it was taken from", t.name)
	}
	t.use.freeing.Lock()
	defer t.use.freeing.Unlock()
	if err := t.use.close(ctx); err != nil {
		return fmt.Errorf("reprise: release trace %q: %w", t.name, err)
	}
	errs := make([]error, len(t.parts))
	_ = eachOf(len(t.parts), func(i int) error {
		errs[i] = t.parts[i].release(ctx)
		return nil
	})
	if err := t.errorOf("release", errs); err != nil {
		return err
	}
	t.use.done()
	return nil
}

// Name returns the trace's name.
func (t *Trace) Name() string { return t.name }

// Size returns the bytes of device memory of the trace, over all banks of all its devices.
func (t *Trace) Size() int { return t.sum(nil, (*part).size) }

// sum adds up a size of the parts on a device, or of all.
func (t *Trace) sum(d *Device, size func(*part) int) (n int) {
	for _, p := range t.parts {
		if d == nil || p.q.d == d {
			n += size(p)
		}
	}
	return n
}

func (p *part) size() int { return len(p.image.Bytes) }

func (p *part) replaySize() int { return len(p.prep.Bytes) }

// Part is what a trace has on one queue.
type Part struct {
	Queue   *Queue
	Steps   []tracebuf.Step   // programs, recordings of events, and waits for them
	Params  []tracebuf.Param  // with the next replay's values; buffers are indices into [Trace.Buffers] of the device
	Extents []tracebuf.Extent // in each DRAM bank; empty after the release
	Size    int               // bytes of device memory, over all banks

	ReplayBytes, ReplayCommands int // that the host writes for a replay
}

// Parts returns what the trace has on each queue, in the order of the capture's queues.
func (t *Trace) Parts() []Part {
	out := make([]Part, len(t.parts))
	for i, p := range t.parts {
		out[i] = Part{
			Queue: p.q, Steps: p.image.Steps, Params: p.params.describe(buffersOf(t.parts, p.q.d)),
			Extents: p.extents(), Size: p.size(), ReplayBytes: p.replaySize(), ReplayCommands: p.prep.Commands(),
		}
	}
	return out
}

// Streams returns how many different command streams the host keeps for the parts, and their bytes.
// Equal parts of several devices share one.
func (t *Trace) Streams() (n, bytes int) {
	for i, p := range t.parts {
		if !slices.ContainsFunc(t.parts[:i], func(o *part) bool { return o.image == p.image }) {
			n, bytes = n+1, bytes+p.size()
		}
	}
	return n, bytes
}

// Buffers returns the buffers of the trace's programs and conditions in order of first use, those
// set by [Trace.SetBuffer], and then those of the traces that it calls. For a part of a buffer it
// returns the whole one. The buffers of a loaded trace end with the trace.
func (t *Trace) Buffers() []*Buffer { return buffersOf(t.parts, nil) }

// FileBuffers returns the buffers as the file describes them that the trace was loaded from, in the
// order of Buffers; nil for a trace that was captured.
func (t *Trace) FileBuffers() (out []tracebuf.Buffer) {
	for _, p := range t.parts {
		if p.loaded != nil {
			out = append(out, p.image.Buffers...)
		}
	}
	return out
}

func buffersOf(parts []*part, d *Device) []*Buffer {
	type place struct {
		d *Device
		e allocator.Extent
	}
	var out []*Buffer
	seen := map[place]bool{}
	for _, p := range append(slices.Clip(parts), allCallees(parts...)...) {
		if d != nil && p.q.d != d {
			continue
		}
		lists := [][]*Buffer{p.buffers, nil, p.params.buffers()}
		if p.loaded != nil {
			lists[1] = p.loaded.buffers
		}
		for _, all := range lists {
			for _, b := range all {
				if at := (place{b.d, b.ext}); !seen[at] {
					seen[at] = true
					out = append(out, b.whole())
				}
			}
		}
	}
	return out
}

// Print writes the trace's commands as text. The error is ErrReleased after the trace's release.
func (t *Trace) Print(w io.Writer) error {
	u := &t.owner().use
	if err := u.enter(false); err != nil {
		return fmt.Errorf("reprise: print trace %q: %w", t.name, err)
	}
	defer u.leave(false)
	for _, p := range t.parts {
		if p.several {
			if _, err := fmt.Fprintf(w, "%s:\n", p.where()); err != nil {
				return err
			}
		}
		if err := p.image.Print(w); err != nil {
			return err
		}
	}
	return nil
}

// PartsError lists what became of each part of a trace over several devices when some failed.
type PartsError struct {
	Op    string // "replay trace \"layer\""
	Parts []PartState
}

// PartState is what became of a part.
type PartState struct {
	Queue *Queue
	Err   error // nil for success; ErrSkipped if another part failed before
}

func (e *PartsError) Error() string {
	var states []string
	for _, p := range e.Parts {
		state := "ok"
		if p.Err != nil {
			state = p.Err.Error()
		}
		states = append(states, fmt.Sprintf("%s, queue %d: %s", p.Queue.d.name, p.Queue.ID(), state))
	}
	return fmt.Sprintf("reprise: %s: %d of %d parts failed: %s", e.Op, len(e.Failed()), len(e.Parts), strings.Join(states, "; "))
}

// Unwrap returns the errors of the parts.
func (e *PartsError) Unwrap() []error {
	var out []error
	for _, p := range e.Parts {
		if p.Err != nil {
			out = append(out, p.Err)
		}
	}
	return out
}

// Failed returns the parts that failed, without those that were skipped.
func (e *PartsError) Failed() []PartState {
	return slices.DeleteFunc(slices.Clone(e.Parts), func(p PartState) bool { return p.Err == nil || errors.Is(p.Err, ErrSkipped) })
}

func (t *Trace) errorOf(op string, errs []error) error {
	if err := cmp.Or(errs...); err == nil || len(t.calls) == 1 {
		return err
	}
	return t.partsError(op, errs)
}

func (t *Trace) partsError(op string, errs []error) error {
	e := &PartsError{Op: fmt.Sprintf("%s trace %q", op, t.name)}
	for i, p := range t.parts {
		e.Parts = append(e.Parts, PartState{Queue: p.q, Err: errs[i]})
	}
	return e
}

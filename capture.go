package reprise

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
)

type capture struct {
	recording
	rs   []*Recorder // by queue, in the order of the call
	t    *Trace      // of a capture on one queue
	one  Recorder
	list [1]*Recorder // backs rs for one queue
	site uintptr      // of the call; 0 if unknown
	ctx  captureContext
}

type captureContext struct {
	context.Context
	c *capture
}

func (x *captureContext) Value(key any) any {
	if _, ok := key.(captureKey); ok {
		return &x.c.recording
	}
	return x.Context.Value(key)
}

// Capture records what record puts into the Recorder as a trace and writes the trace to DRAM.
// Nothing runs and the queue's state doesn't change. Other goroutines may use the queue meanwhile.
//
// A trace may have parts on other queues too, of this device or of others: name them after record,
// and take their Recorders from [Recorder.On]. At every replay all parts start together. On one
// device only the edges of [Recorder.Record] and [Recorder.WaitEvent] order the parts, and the
// queues must have workers of their own ([WithQueueWorkers]). Parts on several devices lie at the
// same address. Commands that are equal on several devices are kept once on the host: record the
// same programs ([LoadAll]) in the same order, first into the first Recorder.
//
// A transfer, load, wait, run, replay or capture with record's context, on a device of the capture,
// returns a *CaptureError that names the call, and the capture fails even if record drops that
// error. Calls with another context happen as usual and aren't recorded. record may allocate, and
// may release buffers and executables: the trace keeps what it uses.
//
// If record or anything else fails, nothing stays allocated or queued.
func (q *Queue) Capture(ctx context.Context, name string, record func(ctx context.Context, r *Recorder) error,
	others ...*Queue) (*Trace, error) {
	var site [1]uintptr
	runtime.Callers(2, site[:]) // a frame less to unwind than callerPC has
	queues := q.self
	if len(others) > 0 {
		queues = append([]*Queue{q}, others...)
	}
	if err := capturable(ctx, name, queues); err != nil {
		return nil, err
	}
	if record == nil {
		return nil, fmt.Errorf("reprise: capture %q: no function to record with: it is nil", name)
	}
	if len(others) == 0 && !q.d.watched() {
		return captureOn(ctx, queues, name, site[0], record)
	}
	return captureObserved(ctx, queues, name, site[0], record)
}

func captureObserved(ctx context.Context, queues []*Queue, name string, site uintptr,
	record func(context.Context, *Recorder) error) (t *Trace, err error) {
	calls := callsOf(queues)
	begun := beginAll(ctx, calls, func(i int) *Call { return &Call{Kind: CallCapture, Queues: calls[i].queues, Name: name} })
	defer endAll(ctx, begun, func(i int, c *Call) { c.Object, c.Bytes = t, t.sum(calls[i].d, (*part).size) }, &err)
	return captureOn(ctx, queues, name, site, record)
}

func capturable(ctx context.Context, name string, queues []*Queue) error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("reprise: capture %q: %w", name, fmt.Errorf(format, a...))
	}
	for i, q := range queues {
		if q == nil {
			return fail("queue %d of the list is nil", i)
		}
		if err := q.d.admit(ctx, q, "capture", opCapture, name); err != nil {
			return err
		}
		if len(queues) > 1 && q.d.SubDevices() != nil {
			return fail("several queues: %w", dispatch.ErrSubDevices)
		}
		for _, o := range queues[:i] {
			if o == q {
				return fail("queue %d of %s is given twice", q.ID(), q.d.name)
			}
			if o.d == q.d && o.Workers().Overlaps(q.Workers()) {
				return fail("queues %d and %d start the same workers: give them workers of their own with WithQueueWorkers", o.ID(), q.ID())
			}
		}
	}
	return nil
}

func captureOn(ctx context.Context, queues []*Queue, name string, site uintptr,
	record func(context.Context, *Recorder) error) (*Trace, error) {
	c := newCapture(name, queues)
	c.site = queues[0].d.siteOf(site)
	for _, r := range c.rs {
		r.q.capturing.Add(1)
		r.d.capturing.Add(1)
	}
	if err := c.call(ctx, record); err != nil {
		return nil, err
	}
	return c.finish(ctx)
}

// siteOf caches the last call site by a return address in the stack, for captures in a loop.
func (d *Device) siteOf(pc uintptr) uintptr {
	if pc != d.lastSite.Load() {
		pc = userPC()
		d.lastSite.Store(pc)
	}
	return pc
}

func newCapture(name string, queues []*Queue) *capture {
	c := &capture{recording: recording{name: name, queues: queues}}
	if len(queues) == 1 {
		c.t = &Trace{}
		c.t.one.part.arena = &c.t.one
		c.one.init(c, queues[0], &c.t.one.part)
		c.rs = append(c.list[:0], &c.one)
		return c
	}
	for _, q := range queues {
		r := &Recorder{}
		r.init(c, q, &part{})
		c.rs = append(c.rs, r)
	}
	c.link()
	return c
}

// link makes Recorders of different devices share commands, and gives those of one device edges.
func (c *capture) link() {
	linked := false
	for i, r := range c.rs {
		if k := slices.IndexFunc(c.rs[:i], func(o *Recorder) bool { return o.d == r.d }); k >= 0 {
			o := c.rs[k]
			if o.edges == nil {
				o.edges = &edges{rs: []*Recorder{o}, recorded: make([]uint32, len(o.d.queues)), newest: map[*Event]edge{}}
			}
			r.edges, linked = o.edges, true
			r.edges.rs = append(r.edges.rs, r)
		}
	}
	if linked {
		return // edges differ from queue to queue
	}
	for _, r := range c.rs[1:] {
		r.rec.Follow(&c.rs[0].rec)
	}
}

func (c *capture) call(ctx context.Context, record func(context.Context, *Recorder) error) (err error) {
	cause := errPanicked
	defer func() {
		for _, r := range c.rs {
			r.q.capturing.Add(-1)
		}
		err = c.close(cause)
	}()
	c.ctx = captureContext{ctx, c}
	cause = record(&c.ctx, c.rs[0])
	return nil
}

var errPanicked = errors.New("the function that records panicked")

// Begin starts a capture without a function, for programs ported from interfaces that work like
// this. Until [Recorder.End] or [Recorder.Discard], whatever any goroutine gives to [Queue.Run] of
// this queue is recorded instead of run. Meanwhile transfers, waits and replays on this queue
// return a *CaptureError and make End fail, because the trace would lack them. Allocating and
// loading on the device return a *CaptureError too, and End still succeeds. The error is an
// ErrNestedCapture while another capture of the queue is under way.
func (q *Queue) Begin(name string) (*Recorder, error) {
	if err := q.d.admit(context.Background(), q, "capture", opCapture, name); err != nil {
		return nil, err
	}
	c := newCapture(name, q.self)
	c.begun = c.rs[0]
	if q.capturing.Load() > 0 || !q.rec.CompareAndSwap(nil, &c.recording) {
		return nil, opCapture.refusal(name, "begin")
	}
	q.d.capturing.Add(1)
	return c.rs[0], nil
}

// End ends a capture that [Queue.Begin] started and writes the trace to DRAM. From then on the
// queue runs programs again. If End fails, nothing stays allocated or queued.
func (r *Recorder) End(ctx context.Context) (*Trace, error) {
	if err := r.end("end"); err != nil {
		return nil, err
	}
	if err := r.c.close(nil); err != nil {
		return nil, err
	}
	return r.c.finish(ctx)
}

// Discard ends a capture that [Queue.Begin] started, without a trace.
func (r *Recorder) Discard() error {
	if err := r.end("discard"); err != nil {
		return err
	}
	_ = r.c.close(errors.New("it was discarded"))
	return nil
}

func (r *Recorder) end(op string) error {
	if r == nil {
		return fmt.Errorf("reprise: %s capture: no recorder: it is nil: %w", op, ErrNotCapturing)
	}
	if r.c.begun == nil || !r.q.rec.CompareAndSwap(&r.c.recording, nil) {
		return fmt.Errorf("reprise: %s capture %q: %w", op, r.c.name, ErrNotCapturing)
	}
	return nil
}

// close ends the recording. After an error, or with a cause, it releases everything held.
func (c *capture) close(cause error) error {
	for _, r := range c.rs {
		r.d.capturing.Add(-1)
	}
	c.mu.Lock()
	c.ended.Store(true)
	err := c.err
	c.mu.Unlock()
	if err == nil && cause != nil {
		err = fmt.Errorf("reprise: capture %q: %w", c.name, cause)
	}
	if err == nil {
		return nil
	}
	errs := []error{err}
	for _, r := range c.rs {
		r.returnScratch()
		errs = append(errs, r.part.drop())
	}
	return errors.Join(errs...)
}

func (c *capture) finish(ctx context.Context) (*Trace, error) {
	one := [1]*Device{c.queues[0].d}
	ds := one[:]
	if len(c.queues) > 1 {
		ds = lockOrder(devicesOf(c.queues))
	}
	for _, d := range ds { // no Recover while the trace is placed
		d.work.RLock()
	}
	defer func() {
		for _, r := range c.rs {
			r.returnScratch()
		}
		for _, d := range ds {
			d.work.RUnlock()
		}
	}()
	t, err := c.trace(ctx)
	if err == nil {
		return t, nil
	}
	where := ""
	if len(ds) > 1 {
		where = fmt.Sprintf(" on %d devices", len(ds))
	}
	errs := []error{fmt.Errorf("reprise: capture %q%s: %w", c.name, where, err)}
	for _, r := range c.rs {
		errs = append(errs, r.part.discard(ctx))
	}
	return nil, errors.Join(errs...)
}

func (c *capture) trace(ctx context.Context) (*Trace, error) {
	rs := c.rs
	if len(rs) > 1 {
		rs = slices.DeleteFunc(slices.Clone(rs), (*Recorder).empty)
	}
	if len(rs) == 0 || rs[0].empty() {
		return nil, ErrEmptyTrace
	}
	if len(c.rs) == 1 {
		r := rs[0]
		if err := r.finish(); err != nil {
			return nil, err
		}
		if err := r.part.allocate(); err != nil {
			return nil, err
		}
		if err := r.place(ctx); err != nil {
			return nil, err
		}
		return c.t.finishOne(c.name)
	}
	for _, r := range c.rs {
		if r.empty() && r.edges != nil && r.edges.any() {
			return nil, fmt.Errorf("%s: %w", r.part.where(), ErrEmptyTrace)
		}
	}
	var parts []*part
	for _, r := range rs {
		if err := r.finish(); err != nil {
			return nil, fmt.Errorf("%s: %w", r.part.where(), err)
		}
		parts = append(parts, r.part)
	}
	if err := allocateParts(parts); err != nil {
		return nil, err
	}
	err := eachOf(len(rs), func(i int) error {
		err := rs[i].place(ctx)
		if err == nil || len(rs) == 1 {
			return err
		}
		return fmt.Errorf("%s: %w", rs[i].part.where(), err)
	})
	if err != nil {
		return nil, err
	}
	return newTrace(c.name, parts, devicesOf(c.queues))
}

// allocateParts takes the memory of a new trace. Parts on queues of the same number get one
// address, so that equal devices stay equal.
func allocateParts(parts []*part) error {
	for i, p := range parts {
		if !p.ext.IsZero() {
			continue
		}
		group := []*part{p}
		for _, o := range parts[i+1:] {
			if o.q.ID() == p.q.ID() {
				group = append(group, o)
			}
		}
		if len(group) == 1 {
			if err := p.allocate(); err != nil {
				return err
			}
			continue
		}
		mems, requests := make([]*allocator.Allocator, len(group)), make([]allocator.Request, len(group))
		for k, o := range group {
			mems[k], requests[k] = o.q.d.mem, o.request()
		}
		exts, err := allocator.AllocateAll(mems, requests)
		if err != nil {
			return p.noRoom(len(p.image.Bytes), err)
		}
		for k, o := range group {
			o.ext = exts[k]
		}
	}
	return nil
}

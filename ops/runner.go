package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
)

// runner carries an operation's effects out: at once, in the trace under capture, or not at all.
// Its methods need Device.mu held.
type runner interface {
	allocate(t *Tensor, cfg reprise.BufferConfig) error
	// keep keeps a scratch tensor for later operations.
	keep(k scratchKey, t *Tensor)
	// refuse returns err if the device's memory can't change now.
	refuse(err error) error
	run(ctx context.Context, w work) error
	write(ctx context.Context, t *Tensor, content func() []byte) error
	// read returns nil if the tensor has no content.
	read(ctx context.Context, t *Tensor, pages []byte) (*reprise.Pending, error)
	// finish ends the operation, which failed with an error unless it is nil.
	finish(ctx context.Context, err error) error
}

type work interface {
	executable() (*reprise.Executable, error)
	// planned returns the circular buffers of a program that isn't loaded, and whether they lie in
	// tensors.
	planned() (buffers []reprise.CircularBuffer, placed bool)
	memory() []*reprise.Buffer
	// parameter returns the name of the program's trace parameter, or "", and its arguments.
	parameter() (string, []reprise.Arg)
}

func (c *call) runner() runner {
	now := eager{c.d, c.q}
	model, _ := c.ctx.Value(modelOf{c.d}).(*Model)
	switch {
	case c.d.captures.noDispatch():
		return &plan{d: c.d}
	case model != nil && c.rec != nil:
		return performance{traced{now, c.rec}, model}
	case model != nil:
		return rehearsal{now, model}
	case c.rec != nil:
		return traced{now, c.rec}
	}
	return now
}

type eager struct {
	d *Device
	q *reprise.Queue
}

func (r eager) allocate(t *Tensor, cfg reprise.BufferConfig) (err error) {
	t.buf, err = r.d.dev.NewBuffer(cfg)
	return err
}

func (r eager) keep(k scratchKey, t *Tensor) { r.d.scratch[k] = t }

func (r eager) refuse(error) error { return nil }

func (r eager) run(ctx context.Context, w work) error {
	x, err := w.executable()
	if err != nil {
		return err
	}
	r.d.captures.run(x)
	return r.q.Run(ctx, x)
}

func (r eager) write(ctx context.Context, t *Tensor, content func() []byte) error {
	return r.q.Write(ctx, t.buf, 0, content())
}

func (r eager) read(ctx context.Context, t *Tensor, pages []byte) (*reprise.Pending, error) {
	return r.q.StartRead(ctx, t.buf, 0, pages)
}

func (r eager) finish(ctx context.Context, err error) error {
	if err == nil && r.d.blocking {
		return r.q.Wait(ctx)
	}
	return err
}

// traced records into the trace that is captured. The queue refuses what a trace can't hold.
type traced struct {
	eager
	rec *recording
}

func (r traced) allocate(*Tensor, reprise.BufferConfig) error {
	return r.refuse(fmt.Errorf("%w: it would have to allocate its result: say Into which tensor it goes", reprise.ErrInCapture))
}

// refuse makes the capture fail with the error, even if the caller drops it.
func (r traced) refuse(err error) error {
	if r.rec.refused == nil {
		r.rec.refused = err
	}
	return err
}

func (r traced) run(_ context.Context, w work) error {
	x, err := w.executable()
	if err != nil {
		return err
	}
	r.d.captures.run(x)
	if err := r.rec.Run(x); err != nil {
		return err
	}
	r.d.captures.record(x)
	if name, args := w.parameter(); name != "" {
		if err := r.rec.Param(name, args...); err != nil {
			return err
		}
	}
	return r.rec.Keep(w.memory()...)
}

func (r traced) finish(_ context.Context, err error) error { return err }

// plan only records graphs, in a capture without dispatch.
type plan struct {
	d       *Device
	scratch []*Tensor
}

func (r *plan) allocate(t *Tensor, cfg reprise.BufferConfig) (err error) {
	t.plan, err = r.d.captures.allocate(t.geometry, cfg)
	return err
}

func (r *plan) keep(_ scratchKey, t *Tensor) { r.scratch = append(r.scratch, t) }

func (r *plan) refuse(error) error { return nil }

func (r *plan) run(_ context.Context, w work) error {
	r.d.captures.program(w.planned())
	return nil
}

func (r *plan) write(context.Context, *Tensor, func() []byte) error { return nil }

func (r *plan) read(context.Context, *Tensor, []byte) (*reprise.Pending, error) { return nil, nil }

func (r *plan) finish(_ context.Context, err error) error {
	slices.Reverse(r.scratch)
	return release(err, r.scratch...)
}

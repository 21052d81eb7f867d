package reprise

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/tracebuf"
)

// StepError says at which of its programs a trace failed that was run in pieces.
type StepError struct {
	Trace string
	First int // steps from First up to Last were under way
	Last  int
	Name  string // of the program of the first
	Err   error
}

// Error implements error.
func (e *StepError) Error() string {
	if e.First == e.Last {
		return fmt.Sprintf("reprise: trace %q: step %d, program %q: %v", e.Trace, e.First, e.Name, e.Err)
	}
	return fmt.Sprintf("reprise: trace %q: steps %d to %d, from program %q on: %v", e.Trace, e.First, e.Last, e.Name, e.Err)
}

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

func (t *Trace) stepError(first, end int, err error) error {
	return &StepError{Trace: t.name, First: first, Last: end - 1, Name: t.image.Steps[first].Name, Err: err}
}

// Step runs the trace program by program: the host sends the commands that a replay would have read from DRAM, and waits
// for each program to finish. So a program that hangs is known by name, and after may look at buffers behind each one. It
// is called with the index of the step that has finished; an error ends the run. Its result is a *StepError, which holds
// what went wrong.
//
// Until Step returns, the queue refuses other programs and replays with [ErrReserved]. Transfers are free. after must not
// release the trace.
func (t *Trace) Step(ctx context.Context, after func(step int) error) error {
	return t.alone(ctx, "step through", func(r *dispatch.Reservation) error {
		return t.step(ctx, r, t.commands(), len(t.image.Steps), after)
	})
}

// step runs the first n steps of commands one by one.
func (t *Trace) step(ctx context.Context, r *dispatch.Reservation, cmds []byte, n int, after func(step int) error) error {
	q := t.q.q
	if err := r.Commands(ctx, t.name, t.prep.Bytes[:t.ready], t.prep.Counts, q.StateAfter(0)); err != nil {
		return t.stepError(0, 1, err)
	}
	for i, s := range t.image.Steps[:n] {
		name := fmt.Sprintf("step %d of trace %q, program %q", i, t.name, s.Name)
		err := r.Commands(ctx, name, cmds[s.Offset:s.Offset+s.Size], nil, q.StateAfter(i+1))
		if err == nil {
			err = q.Finish(ctx)
		}
		if err == nil && after != nil {
			err = after(i)
		}
		if err != nil {
			return t.stepError(i, i+1, err)
		}
	}
	return nil
}

// Split runs the trace as pieces of about equal numbers of programs that lie in DRAM and are replayed one behind the
// other, with a wait after each. Programs that fail only in a replay, not in Step, are so found among fewer and fewer.
// after is called with the steps of the piece that has finished, from first up to end, without end; an error ends the run.
// Its result is a *StepError. Split takes DRAM for the pieces until it returns, and the queue as Step does.
func (t *Trace) Split(ctx context.Context, pieces int, after func(first, end int) error) error {
	n := len(t.image.Steps)
	if pieces < 1 || pieces > n {
		return fmt.Errorf("reprise: split trace %q: %d pieces: it has %d programs, so 1 to %d pieces are possible", t.name, pieces, n, n)
	}
	return t.alone(ctx, "split", func(r *dispatch.Reservation) (err error) {
		var parts []*part
		defer func() {
			for _, p := range parts {
				err = errors.Join(err, p.free())
			}
		}()
		for i := range pieces {
			p, err := t.part(ctx, i*n/pieces, (i+1)*n/pieces)
			if err != nil {
				return err
			}
			parts = append(parts, p)
		}
		for _, p := range parts {
			err := p.run(ctx, r)
			if err == nil && after != nil {
				err = after(p.first, p.end)
			}
			if err != nil {
				return t.stepError(p.first, p.end, err)
			}
		}
		return nil
	})
}

// part is steps of a trace that lie in DRAM by themselves.
type part struct {
	t          *Trace
	first, end int
	ext        allocator.Extent
	prep       dispatch.Prepared
}

// part writes steps to DRAM. Unless they are the first, they may only be run right behind those before.
func (t *Trace) part(ctx context.Context, first, end int) (*part, error) {
	p := &part{t: t, first: first, end: end}
	if err := p.place(ctx); err != nil {
		return nil, errors.Join(err, p.free())
	}
	return p, nil
}

func (p *part) place(ctx context.Context) error {
	t := p.t
	d, whole := t.q.d, *t.image
	whole.Bytes = t.commands()
	im, err := whole.Part(p.first, p.end, d.DRAMBanks())
	if err != nil {
		return err
	}
	p.ext, err = d.mem.Allocate(allocator.Request{Kind: allocator.Trace, Size: uint64(len(im.Bytes)), PageSize: uint64(im.PageSize), Owner: t.name, Tag: "part of a trace"})
	if err != nil {
		return t.noRoom(len(im.Bytes), err)
	}
	replay, err := tracebuf.NewReplay(t.q.replayConfig(im, p.ext))
	if err != nil {
		return err
	}
	p.prep = dispatch.Prepared{Name: t.name, Bytes: replay.Bytes[replay.ExecBuf:], Image: im.Bytes[:im.Size], After: t.q.q.StateAfter(p.end)}
	if p.first == 0 {
		p.prep.Bytes, p.prep.Counts = replay.Bytes, t.prep.Counts
	}
	iv := interleaved(p.ext)
	if err := t.q.q.Write(ctx, &iv, 0, im.Bytes); err != nil {
		return err
	}
	return t.q.q.Finish(ctx)
}

// run replays the part and waits for it.
func (p *part) run(ctx context.Context, r *dispatch.Reservation) error {
	if err := r.Submit(ctx, &p.prep); err != nil {
		return err
	}
	return p.t.q.q.Finish(ctx)
}

func (p *part) free() error {
	if p.ext.IsZero() {
		return nil
	}
	return p.t.q.d.mem.Free(p.ext)
}

// alone runs f while nobody else runs anything on the queue's workers and the trace isn't released, with the parameters
// that were set.
func (t *Trace) alone(ctx context.Context, op string, f func(*dispatch.Reservation) error) error {
	d := t.q.d
	what := fmt.Sprintf("%s trace %q", op, t.name)
	if err := d.usable(what); err != nil {
		return err
	}
	if err := d.refuse(t.q, opDebug, t.name); err != nil {
		return err
	}
	// First of all, so that it is an error and no deadlock inside a function of the caller's.
	r, err := t.q.q.Reserve()
	if err != nil {
		return d.failed(what, err)
	}
	defer r.Release()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released {
		return fmt.Errorf("reprise: %s: %w", what, ErrReleased)
	}
	if err := t.flush(ctx); err != nil {
		return d.failed(what, err)
	}
	err = f(r)
	var step *StepError
	var check *CheckError
	var verify *VerifyError
	if err == nil || d.usable(what) == nil && (errors.As(err, &step) || errors.As(err, &check) || errors.As(err, &verify)) {
		return err // which names the trace
	}
	return d.failed(what, overlap(err))
}

package reprise

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Trace is a recorded sequence of programs that lies in the device's DRAM. It owns what it touches: the kernels and
// the buffers of its programs stay allocated until Release.
type Trace struct {
	q       *Queue
	name    string
	image   *tracebuf.Image
	progs   []*Executable        // that Step.Program indexes; their kernels are held, closed or not
	bufs    map[*Buffer]struct{} // those of buffers
	buffers []*Buffer            // that it holds for its programs, in order of first use
	params  params
	loaded  bool      // from a file, so that there are only the recorded commands
	spans   bool      // it is a part of a SpanningTrace
	made    []*Buffer // the buffers of a loaded trace, by their number in the file
	owned   []*Buffer // those of them that loading allocated
	// results is what the buffers of a loaded trace hold after a replay.
	results []tracebuf.Data
	ext     allocator.Extent
	holds   []allocator.Extent
	cbEnd   uint64
	prep    dispatch.Prepared
	site    uintptr // who has asked for its memory; 0 if that isn't known yet
	written bool    // the queue was told to write there

	use  use
	gone bool // released, for who holds params.mu
}

// Replay runs the trace again. It returns once the commands are in the issue ring; Queue.Finish waits for the
// device. It allocates nothing. The error is an *OverlapError if another queue has put a program on the same workers and
// nothing orders the two.
func (t *Trace) Replay(ctx context.Context) error {
	if t.q.d.watch.on.Load() != nil {
		return t.q.d.observed(ctx, &Call{Kind: CallReplay, Queues: t.q.self, Name: t.name, Object: t, Bytes: len(t.prep.Bytes)}, func() error { return t.replay(ctx) })
	}
	return t.replay(ctx)
}

func (t *Trace) replay(ctx context.Context) error {
	if t.q.d.captures.open.Load() != nil {
		if err := t.q.d.refuse(t.q, opReplay, t.name); err != nil {
			return err
		}
	}
	var err error
	if t.params.changed.Load() {
		err = t.replayChanged(ctx)
	} else {
		err = t.q.q.Submit(ctx, &t.prep)
	}
	if err != nil {
		if errors.Is(err, dispatch.ErrRevoked) {
			err = ErrReleased
		}
		err = overlap(err)
		return t.q.d.failed(fmt.Sprintf("replay trace %q", t.name), err)
	}
	return nil
}

// Replay is [Trace.Replay] for programs that keep queue and trace apart. The trace must have been captured on q.
func (q *Queue) Replay(ctx context.Context, t *Trace) error {
	var err error
	switch {
	case t == nil:
		err = errors.New("no trace: it is nil")
	case t.q.d != q.d:
		err = fmt.Errorf("trace %q: %w", t.name, ErrForeign)
	case t.q != q:
		err = fmt.Errorf("trace %q: %w: replay it on queue %d", t.name, ErrOtherQueue, t.q.ID())
	default:
		return t.Replay(ctx)
	}
	return fmt.Errorf("reprise: replay: %w", err)
}

// Release waits for the queue to finish and gives the trace's memory back, and that of the buffers and kernels that
// nobody else holds. Replays that are in the queue run to their end first. Traces may be released in any order. While the
// trace is being stepped through, split, checked or bisected the error is ErrReserved, also for who does it from inside.
func (t *Trace) Release(ctx context.Context) error {
	if t.q.d.watch.on.Load() != nil {
		return t.q.d.observed(ctx, &Call{Kind: CallRelease, Queues: t.q.self, Name: t.name, Object: t}, func() error { return t.release(ctx) })
	}
	return t.release(ctx)
}

func (t *Trace) release(ctx context.Context) error {
	t.q.d.work.RLock()
	defer t.q.d.work.RUnlock()
	t.use.freeing.Lock()
	defer t.use.freeing.Unlock()
	if err := t.use.close(ctx); err != nil {
		return fmt.Errorf("reprise: release trace %q: %w", t.name, err)
	}
	t.q.q.Revoke(&t.prep)
	if err := t.q.await(ctx); err != nil {
		return t.q.d.failed(fmt.Sprintf("release trace %q", t.name), fmt.Errorf("%w; call Release again", err))
	}
	t.use.done()
	t.params.mu.Lock()
	t.gone = true
	t.params.mu.Unlock()
	t.q.d.mu.Lock()
	delete(t.q.d.traces, t)
	t.q.d.mu.Unlock()
	if err := t.drop(); err != nil {
		return fmt.Errorf("reprise: release trace %q: %w", t.name, err)
	}
	return nil
}

// discard takes a trace that nobody gets out of the device and gives everything back that it holds, once no queue writes to it
// any more: its own, or others.
func (t *Trace) discard(ctx context.Context, others ...*Queue) error {
	d := t.q.d
	d.mu.Lock()
	delete(d.traces, t)
	d.mu.Unlock()
	if t.written || len(others) > 0 {
		return d.freeBehind(ctx, t.drop, append(others, t.q)...)
	}
	return t.drop()
}

// drop gives everything back that the trace holds.
func (t *Trace) drop() error {
	mem := t.q.d.mem
	var errs []error
	for _, e := range t.holds {
		errs = append(errs, mem.Unhold(e))
	}
	errs = append(errs, t.params.drop(mem))
	if !t.ext.IsZero() {
		errs = append(errs, mem.Free(t.ext))
	}
	if t.cbEnd != 0 {
		errs = append(errs, t.q.d.cbs.shrink(t.cbEnd))
	}
	for _, b := range t.owned {
		if !b.freed.Swap(true) {
			errs = append(errs, mem.Free(b.ext))
		}
	}
	t.owned = nil
	t.holds, t.ext, t.cbEnd = nil, allocator.Extent{}, 0
	return errors.Join(errs...)
}

// Name returns the trace's name.
func (t *Trace) Name() string { return t.name }

// Queue returns the queue that the trace runs on.
func (t *Trace) Queue() *Queue { return t.q }

// Size returns the bytes of device memory that the trace takes, over all banks.
func (t *Trace) Size() int { return len(t.image.Bytes) }

// ReplayBytes returns the bytes that the host writes for one replay.
func (t *Trace) ReplayBytes() int { return len(t.prep.Bytes) }

// ReplayCommands returns the number of commands that the host writes for one replay.
func (t *Trace) ReplayCommands() int { return t.prep.Commands(t.q.d.disp) }

// Steps returns the recorded programs.
func (t *Trace) Steps() []tracebuf.Step { return t.image.Steps }

// Extents returns where the trace lies in each DRAM bank, or nothing once it is released.
func (t *Trace) Extents() []tracebuf.Extent { return t.image.Extents(t.ext.Addr, int(t.ext.Banks)) }

// Print writes the trace's commands as text.
func (t *Trace) Print(w io.Writer) error { return t.image.Print(w) }

package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Recorder records programs into a trace. It has no method to write, read, allocate or load, because a replay can't
// do those. It belongs to the goroutine that records.
type Recorder struct {
	name  string
	d     *Device
	q     *dispatch.Queue
	rec   *tracebuf.Recording
	state dispatch.State
	execs []*Executable
	err   error
	ended bool
}

// CaptureError is returned for what a capture can't record. It names the operation and where it was called.
type CaptureError struct {
	Trace string // name of the trace
	Op    string // "run program \"dense\""
	File  string
	Line  int
	Err   error
}

// Error implements error.
func (e *CaptureError) Error() string {
	return fmt.Sprintf("reprise: capture %q: %s at %s:%d: %v", e.Trace, e.Op, e.File, e.Line, e.Err)
}

// Unwrap returns why it can't be recorded.
func (e *CaptureError) Unwrap() error { return e.Err }

// Run records a program. An error also ends the capture that the Recorder belongs to.
func (r *Recorder) Run(x *Executable) error {
	op := "run program"
	if x != nil {
		op = fmt.Sprintf("run program %q", x.Name())
		x.mu.RLock()
		defer x.mu.RUnlock()
	}
	err := x.of(r.d)
	if r.ended {
		err = ErrCaptureEnded
	}
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		err = &CaptureError{Trace: r.name, Op: op, File: file, Line: line, Err: err}
		r.err = cmp.Or(r.err, err)
		return err
	}
	r.rec.Add(x.Name(), func(dst []byte) []byte {
		return x.image.Append(dst, &r.state, r.q.Dispatcher(), uint16(len(r.execs)))
	})
	r.execs = append(r.execs, x)
	return nil
}

// Trace is a recorded sequence of programs that lies in the device's DRAM. It owns what it touches: the kernels and
// the buffers of its programs stay allocated until Release.
type Trace struct {
	q     *Queue
	name  string
	image *tracebuf.Image
	execs []*Executable // whose kernels it runs, closed ones too
	ext   allocator.Extent
	holds []allocator.Extent
	cbEnd uint64
	prep  dispatch.Prepared

	mu       sync.Mutex // held while the trace is released
	released bool
}

// Capture records what record puts into the Recorder as a trace of that name and writes the trace to DRAM. Nothing
// runs, and the queue is as before; other goroutines may go on using it. When record or anything else fails, nothing
// is left behind.
func (q *Queue) Capture(ctx context.Context, name string, record func(*Recorder) error) (*Trace, error) {
	d := q.d
	if err := d.usable("capture"); err != nil {
		return nil, err
	}
	if q.ID() != 0 {
		return nil, fmt.Errorf("reprise: capture %q: queue %d: %w", name, q.ID(), ErrTransferQueue)
	}
	if record == nil {
		return nil, fmt.Errorf("reprise: capture %q: no function to record with: it is nil", name)
	}
	r := &Recorder{name: name, d: d, q: q.q, rec: tracebuf.NewRecording(cq.Layout(d.Arch())), state: d.disp.ReplayState()}
	err := record(r)
	r.ended = true
	if r.err != nil {
		return nil, r.err
	}
	if err != nil {
		return nil, fmt.Errorf("reprise: capture %q: %w", name, err)
	}
	image, err := r.rec.Finish(d.DRAMBanks())
	if err != nil {
		return nil, fmt.Errorf("reprise: capture %q: %w", name, err)
	}
	d.work.RLock()
	defer d.work.RUnlock()
	t := &Trace{q: q, name: name, image: image, execs: r.execs}
	if err := t.place(ctx, r); err != nil {
		return nil, errors.Join(fmt.Errorf("reprise: capture %q: %w", name, err), t.drop())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.traces[t] = struct{}{}
	return t, nil
}

// place takes DRAM for the trace, writes it there and prepares the commands of a replay.
func (t *Trace) place(ctx context.Context, r *Recorder) error {
	d := t.q.d
	for _, x := range r.execs {
		for _, e := range append([]allocator.Extent{x.bin}, x.holds...) {
			if err := d.mem.Hold(e); err != nil {
				return err
			}
			t.holds = append(t.holds, e)
		}
	}
	end := d.cbs.base
	for _, x := range r.execs {
		end = max(end, x.cbEnd)
	}
	if err := d.cbs.grow(end); err != nil {
		return err
	}
	t.cbEnd = end
	var err error
	t.ext, err = d.mem.Allocate(allocator.Request{Kind: allocator.Trace, Size: uint64(len(t.image.Bytes)), PageSize: uint64(t.image.PageSize), Owner: t.name, Tag: "trace"})
	if err != nil {
		return fmt.Errorf("trace needs %d B on %s: %w", len(t.image.Bytes), d.name, err)
	}
	core := r.q.DispatchCore()
	replay, err := tracebuf.NewReplay(tracebuf.ReplayConfig{
		Layout: t.image.Layout, Addr: uint32(t.ext.Addr), PageSize: t.image.PageSize, Pages: t.image.Pages(),
		DispatchX: core.X, DispatchY: core.Y, Subordinate: true, Workers: uint32(d.disp.L1Banks()),
		Stream: uint16(d.disp.Chip().Params().Stream.FirstDispatch),
	})
	if err != nil {
		return err
	}
	t.prep = dispatch.Prepared{
		Name: t.name, Bytes: replay.Bytes, Image: t.image.Bytes[:t.image.Size], After: d.disp.Detach(r.state),
		Counts: []dispatch.CountPatch{{At: replay.GoCount}, {At: replay.WaitCount, Add: cq.Count(d.disp.L1Banks())}},
	}
	iv := interleaved(t.ext)
	if err := r.q.Write(ctx, &iv, 0, t.image.Bytes); err != nil {
		return err
	}
	return r.q.Finish(ctx)
}

// Replay runs the trace again. It returns once the commands are in the issue ring; Queue.Finish waits for the
// device. It allocates nothing.
func (t *Trace) Replay(ctx context.Context) error {
	if err := t.q.q.Submit(ctx, &t.prep); err != nil {
		if errors.Is(err, dispatch.ErrRevoked) {
			err = ErrReleased
		}
		return t.q.d.failed(fmt.Sprintf("replay trace %q", t.name), err)
	}
	return nil
}

// Release waits for the queue to finish and gives the trace's memory back, and that of the buffers and kernels that
// nobody else holds.
func (t *Trace) Release(ctx context.Context) error {
	t.q.d.work.RLock()
	defer t.q.d.work.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released {
		return fmt.Errorf("reprise: release trace %q: %w", t.name, ErrReleased)
	}
	t.q.q.Revoke(&t.prep)
	if err := t.q.q.Finish(ctx); err != nil {
		return t.q.d.failed(fmt.Sprintf("release trace %q", t.name), fmt.Errorf("%w; call Release again", err))
	}
	t.released = true
	t.q.d.mu.Lock()
	delete(t.q.d.traces, t)
	t.q.d.mu.Unlock()
	if err := t.drop(); err != nil {
		return fmt.Errorf("reprise: release trace %q: %w", t.name, err)
	}
	return nil
}

func (t *Trace) drop() error {
	mem := t.q.d.mem
	var errs []error
	for _, e := range t.holds {
		errs = append(errs, mem.Unhold(e))
	}
	if !t.ext.IsZero() {
		errs = append(errs, mem.Free(t.ext))
	}
	if t.cbEnd != 0 {
		errs = append(errs, t.q.d.cbs.shrink(t.cbEnd))
	}
	return errors.Join(errs...)
}

// Name returns the trace's name.
func (t *Trace) Name() string { return t.name }

// Size returns the bytes of device memory that the trace takes, over all banks.
func (t *Trace) Size() int { return len(t.image.Bytes) }

// ReplayBytes returns the bytes that the host writes for one replay.
func (t *Trace) ReplayBytes() int { return len(t.prep.Bytes) }

// Steps returns the recorded programs.
func (t *Trace) Steps() []tracebuf.Step { return t.image.Steps }

// Extents returns where the trace lies in each DRAM bank.
func (t *Trace) Extents() []tracebuf.Extent { return t.image.Extents(t.ext.Addr, int(t.ext.Banks)) }

// Print writes the trace's commands as text.
func (t *Trace) Print(w io.Writer) error { return t.image.Print(w) }

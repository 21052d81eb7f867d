package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Recorder records programs into a trace. It has no method to write, read, allocate or load, because a replay can't
// do those. What it records must come from one goroutine at a time to have an order.
type Recorder struct {
	name  string
	d     *Device
	q     *Queue
	mark  uint32       // spelled on the stack below a capture's function
	begun bool         // by Queue.Begin
	open  []*Recorder  // captures.open when there is no other one
	self  [1]*Recorder // what that is made of

	mu    sync.Mutex
	t     *Trace // what it becomes; it holds what the programs need
	rec   tracebuf.Recording
	mem   *[]byte // that rec has borrowed
	state dispatch.State
	prior dispatch.State      // before what was recorded last
	seen  []int               // by t.progs: buffers of the program that the trace holds
	at    map[*Executable]int // place in t.progs, once there are many
	span  *span               // of a capture over several queues
	lead  *lead               // of a capture on several devices, the recorder whose commands this one's are equal to so far
	leads bool                // others follow
	heard *heard
	err   error // the first one: the capture fails with it
	ended bool
}

func newRecorder(q *Queue, name string, begun bool) *Recorder {
	d := q.d
	return &Recorder{
		name: name, d: d, q: q, begun: begun, t: &Trace{q: q, name: name},
		rec: *tracebuf.NewRecording(cq.Layout(d.Arch())), state: d.disp.ReplayState(),
	}
}

// fewPrograms are looked through faster than a map is made.
const fewPrograms = 16

// index returns the place of a program in the trace's programs, -1 if it wasn't recorded yet. Called with mu held.
func (r *Recorder) index(x *Executable) int {
	if r.at == nil {
		return slices.Index(r.t.progs, x)
	}
	if i, ok := r.at[x]; ok {
		return i
	}
	return -1
}

// enter enters a program and returns its place. Called with mu held.
func (r *Recorder) enter(x *Executable) int {
	i := len(r.t.progs)
	r.t.progs, r.seen = append(r.t.progs, x), append(r.seen, 0)
	switch {
	case r.at != nil:
		r.at[x] = i
	case i >= fewPrograms:
		r.at = make(map[*Executable]int, 2*fewPrograms)
		for j, p := range r.t.progs {
			r.at[p] = j
		}
	}
	return i
}

// fail makes the capture fail.
func (r *Recorder) fail(err error) {
	r.mu.Lock()
	r.err = cmp.Or(r.err, err)
	r.mu.Unlock()
}

// Run records a program. An error also ends the capture that the Recorder belongs to. Whatever becomes of the
// executable and its buffers, the trace keeps the kernels and the memory from here on.
func (r *Recorder) Run(x *Executable) error {
	if err := r.run(x); err != nil {
		op := opRun.what()
		if x != nil {
			op = fmt.Sprintf("%s %q", op, x.Name())
		}
		return r.refused(op, err)
	}
	return nil
}

// refused is the error of a method of the Recorder. The capture fails with it.
func (r *Recorder) refused(op string, err error) error {
	at := callSite()
	err = &CaptureError{Trace: r.name, Op: op, File: at.file, Line: at.line, Err: err}
	r.fail(err)
	return err
}

func (r *Recorder) run(x *Executable) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return ErrCaptureEnded
	}
	if x != nil {
		x.mu.RLock()
		defer x.mu.RUnlock()
	}
	if err := x.of(r.d); err != nil {
		return err
	}
	if err := r.q.q.Fits(x.image); err != nil {
		return err
	}
	i := r.index(x)
	if i < 0 {
		if err := r.t.own(x); err != nil {
			return err
		}
		i = r.enter(x)
	}
	for ; r.seen[i] < len(x.bufs); r.seen[i]++ {
		if err := r.t.hold(x.bufs[r.seen[i]]); err != nil {
			return err
		}
	}
	if r.follow(x) {
		return nil
	}
	r.prior = r.state
	if len(r.rec.Steps()) == 0 {
		r.borrow()
	}
	r.rec.Reserve(x.image.RunBytes())
	r.rec.Add(x.Name(), i, func(dst []byte) []byte {
		return x.image.Append(dst, &r.state, r.q.q.Dispatcher(), uint16(len(r.rec.Steps())))
	})
	return nil
}

// scratchSize is enough for traces of some programs; others are recorded in memory of their own.
const scratchSize = 64 << 10

// borrow takes the device's memory to record in. Who hears others, or is heard, goes without. Called with mu held.
func (r *Recorder) borrow() {
	if r.lead != nil || r.leads || r.span != nil {
		return
	}
	mem := r.d.scratch.Swap(nil)
	if mem == nil {
		mem = new([]byte)
		*mem = make([]byte, scratchSize)
	}
	r.mem = mem
	r.rec.Borrow(*mem)
}

// giveBack ends the recording.
func (r *Recorder) giveBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rec.Return() != nil {
		r.d.scratch.Store(r.mem)
	}
}

// hold makes the trace keep a buffer.
func (t *Trace) hold(b *Buffer) error {
	if _, ok := t.bufs[b]; ok {
		return nil
	}
	if err := t.q.d.mem.Hold(b.owned()); err != nil {
		return err
	}
	t.holds = append(t.holds, b.owned())
	if t.bufs == nil {
		t.bufs = map[*Buffer]struct{}{}
	}
	t.bufs[b] = struct{}{}
	t.buffers = append(t.buffers, b)
	return nil
}

// own makes the trace keep a program's kernels and the room of its circular buffers.
func (t *Trace) own(x *Executable) error {
	if err := t.q.d.mem.Hold(x.bin); err != nil {
		return err
	}
	t.holds = append(t.holds, x.bin)
	if x.cbEnd <= t.cbEnd {
		return nil
	}
	// Before the smaller end is given up, so that nobody gets in between.
	if err := t.q.d.cbs.grow(x.cbEnd); err != nil {
		return err
	}
	old := t.cbEnd
	t.cbEnd = x.cbEnd
	if old != 0 {
		return t.q.d.cbs.shrink(old)
	}
	return nil
}

// close ends the recording. If that failed, or the caller has a reason not to go on, it gives back what was held and
// returns the reason.
func (r *Recorder) close(cause error) error {
	r.d.captures.remove(r)
	r.mu.Lock()
	r.ended = true
	err := r.err
	r.mu.Unlock()
	if err == nil && cause != nil {
		err = fmt.Errorf("reprise: capture %q: %w", r.name, cause)
	}
	if err != nil {
		r.giveBack()
		if drop := r.t.drop(); drop != nil {
			err = errors.Join(err, drop)
		}
	}
	return err
}

// finish makes a trace of what was recorded.
func (r *Recorder) finish(ctx context.Context) (*Trace, error) {
	t, d := r.t, r.d
	d.work.RLock()
	defer d.work.RUnlock()
	defer r.giveBack()
	var err error
	if t.image, err = r.rec.Finish(d.DRAMBanks()); err == nil {
		err = t.place(ctx, d.disp.Detach(r.state), t.name)
	}
	if err == nil {
		err = t.register()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reprise: capture %q: %w", r.name, err), t.discard(ctx))
	}
	return t, nil
}

// register enters a trace in the device.
func (t *Trace) register() error {
	d := t.q.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	d.traces[t] = struct{}{}
	return nil
}

// place takes DRAM for the trace, writes it there and prepares the commands of a replay.
func (t *Trace) place(ctx context.Context, after dispatch.State, owner string) error {
	d := t.q.d
	var err error
	if t.ext.IsZero() {
		if t.site == 0 {
			t.site = userPC()
		}
		if t.ext, err = d.mem.Allocate(t.request(owner)); err != nil {
			return t.noRoom(len(t.image.Bytes), err)
		}
	}
	replay, err := tracebuf.NewReplay(t.q.replayConfig(t.image, t.ext))
	if err != nil {
		return err
	}
	t.prep = dispatch.Prepared{
		Name: t.name, Bytes: replay.Bytes, Image: t.image.Bytes[:t.image.Size], After: after,
		Counts: t.counts(replay),
	}
	if len(t.params.list) > 0 {
		t.params.place(t.image, int(d.disp.Chip().Params().Align.DRAMWrite))
		t.prep.Image = slices.Clone(t.prep.Image) // hang reports read it while parameters are set
	}
	iv := interleaved(t.ext)
	t.written = true
	if err := t.q.q.Write(ctx, &iv, 0, t.image.Bytes); err != nil {
		return err
	}
	// Nobody waits: the queue's later commands do, in the prefetcher, so that no replay reads what isn't written yet.
	return t.q.q.Settle(ctx)
}

// request is for the trace's DRAM.
func (t *Trace) request(owner string) allocator.Request {
	return allocator.Request{
		Kind: allocator.Trace, Size: uint64(len(t.image.Bytes)), PageSize: uint64(t.image.PageSize), Owner: owner, Tag: "trace", Site: t.site,
	}
}

// replayConfig says how what lies in an extent is replayed.
func (q *Queue) replayConfig(im *tracebuf.Image, e allocator.Extent) tracebuf.ReplayConfig {
	core := q.q.DispatchCore()
	return tracebuf.ReplayConfig{
		Layout: im.Layout, Addr: uint32(e.Addr), PageSize: im.PageSize, Pages: im.Pages(),
		DispatchX: core.X, DispatchY: core.Y, Subordinate: true, Workers: uint32(q.q.Workers().Size()),
		Stream: uint16(q.d.disp.Chip().Params().Stream.FirstDispatch), Packed: q.d.disp.PackedPage() > 0,
	}
}

// noRoom says how large a trace region of fixed size has to be.
func (t *Trace) noRoom(n int, err error) error {
	d := t.q.d
	var oom *OutOfMemoryError
	if !errors.As(err, &oom) || oom.TraceRegion == 0 {
		return fmt.Errorf("trace needs %d B on %s: %w", n, d.name, err)
	}
	return fmt.Errorf("trace needs %d B on %s, the trace region holds %d B: open the device with reprise.WithTraceRegion(%d): %w",
		n, d.name, oom.Total*uint64(oom.Banks), oom.TraceRegion, err)
}

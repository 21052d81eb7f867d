package rig

import (
	"bytes"
	"context"
	"errors"
	"runtime"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
)

// ManyTimes is more iterations than anybody waits for.
const ManyTimes = 1 << 30

// Ended checks that an Abort has ended that many replays.
func (t *T) Ended(want int) {
	n, err := t.Queue.Abort(t.Ctx)
	t.OK(err)
	Equal(t, n, want, "replays that Abort has ended")
}

// Buffer allocates a buffer and frees it with the case.
func (t *T) Buffer(k allocator.Kind, size, page int) *reprise.Buffer {
	return t.BufferOf(reprise.BufferConfig{Kind: k, Size: size, PageSize: page, Name: "test"})
}

// DRAMBuffer is Buffer in DRAM.
func (t *T) DRAMBuffer(size, page int) *reprise.Buffer {
	return t.Buffer(allocator.DRAM, size, page)
}

// L1Buffer is Buffer in L1.
func (t *T) L1Buffer(size, page int) *reprise.Buffer {
	return t.Buffer(allocator.L1, size, page)
}

// ReadAll reads a whole buffer.
func (t *T) ReadAll(b *reprise.Buffer) []byte {
	return t.ReadOn(t.Queue, b)
}

// ReadOn reads a whole buffer by a queue.
func (t *T) ReadOn(q *reprise.Queue, b *reprise.Buffer) []byte {
	return t.On(q).ReadAt(b, 0, b.Size())
}

// ReadAt reads n bytes of a buffer.
func (t *T) ReadAt(b *reprise.Buffer, off, n int) []byte {
	got := make([]byte, n)
	t.OK(t.Queue.Read(t.Ctx, b, off, got))
	return got
}

// StartRead starts a read that is to find something, and returns what waits for it and compares.
func (t *T) StartRead(b *reprise.Buffer, off int, want []byte) (check func(what string, args ...any)) {
	got := make([]byte, len(want))
	p, err := t.Queue.StartRead(t.Ctx, b, off, got)
	t.OK(err)
	return func(what string, args ...any) {
		t.WaitFor(p)
		t.Same(want, got, what, args...)
	}
}

// Write writes to the beginning of a buffer.
func (t *T) Write(b *reprise.Buffer, data []byte) {
	t.WriteAt(b, 0, data)
}

// WriteAt writes to a buffer.
func (t *T) WriteAt(b *reprise.Buffer, off int, data []byte) {
	t.OK(t.Queue.Write(t.Ctx, b, off, data))
}

// ComesBack writes a seed's bytes to a whole buffer and returns an error if they read
// differently.
func (t *T) ComesBack(b *reprise.Buffer, seed int) error {
	want, got := Pattern(seed, b.Size()), make([]byte, b.Size())
	if err := errors.Join(t.Queue.Write(t.Ctx, b, 0, want), t.Queue.Read(t.Ctx, b, 0, got)); err != nil {
		return err
	}
	if d := Difference(want, got); d != "" {
		return errors.New(d)
	}
	return nil
}

// Fill writes a seed's bytes to a whole buffer and returns them.
func (t *T) Fill(b *reprise.Buffer, seed int) []byte {
	data := Pattern(seed, b.Size())
	t.Write(b, data)
	return data
}

// Clear writes zeros to a whole buffer.
func (t *T) Clear(b *reprise.Buffer) {
	t.Write(b, make([]byte, b.Size()))
}

// Holds compares what a buffer holds.
func (t *T) Holds(b *reprise.Buffer, want []byte, what string, args ...any) {
	t.Same(want, t.ReadAll(b), what, args...)
}

// Start runs a program without waiting for its end.
func (t *T) Start(x *reprise.Executable) {
	t.OK(t.Queue.Run(t.Ctx, x))
}

// Replay starts a replay of a trace.
func (t *T) Replay(tr *reprise.Trace) {
	t.OK(tr.Replay(t.Ctx))
}

// Wait waits for everything in the queue.
func (t *T) Wait() {
	t.OK(t.Queue.Wait(t.Ctx))
}

// WaitFor waits for a queue, an event or a started transfer.
func (t *T) WaitFor(x interface{ Wait(context.Context) error }) {
	t.OK(x.Wait(t.Ctx))
}

// Release releases a program or a trace before the end of the case.
func (t *T) Release(x interface{ Release(context.Context) error }) {
	t.OK(x.Release(t.Ctx))
}

// Free releases a buffer before the end of the case.
func (t *T) Free(b interface{ Release() error }) {
	t.OK(b.Release())
}

// Record records what a function does, without releasing the trace.
func (t *T) Record(name string, record func(*reprise.Recorder) error, more ...*reprise.Queue) (*reprise.Trace, error) {
	return t.Queue.Capture(t.Ctx, name, func(_ context.Context, r *reprise.Recorder) error { return record(r) }, more...)
}

// Trace records what a function does, and releases the trace with the case. The function may
// ignore a Recorder's errors, with which the capture fails.
func (t *T) Trace(name string, record func(*reprise.Recorder), more ...*reprise.Queue) *reprise.Trace {
	return t.Hold(t.Record(name, func(r *reprise.Recorder) error { record(r); return nil }, more...))
}

// Hold takes the result of a capture and releases the trace with the case.
func (t *T) Hold(tr *reprise.Trace, err error) *reprise.Trace {
	t.OK(err)
	t.opened.change(func() { t.opened.traces = append(t.opened.traces, tr) })
	t.Closing(tr.Release)
	return tr
}

// Save returns the file of a trace.
func (t *T) Save(tr *reprise.Trace, opts ...reprise.SaveOption) []byte {
	var file bytes.Buffer
	t.OK(tr.Save(t.Ctx, &file, opts...))
	return file.Bytes()
}

// LoadTrace loads a trace from its file, and releases it with the case.
func (t *T) LoadTrace(file []byte, opts ...reprise.LoadOption) *reprise.Trace {
	return t.Hold(t.Dev.LoadTrace(t.Ctx, bytes.NewReader(file), opts...))
}

// Done checks whether an event is done.
func (t *T) Done(what string, e *reprise.Event, want bool) {
	if done, err := e.Query(); done != want || err != nil {
		t.Errorf("%s: done %v, %v, want %v", what, done, err, want)
	}
}

// Bisects checks that Bisect finds each step that makes results wrong; -1 for none.
func (t *T) Bisects(tr *reprise.Trace, prepare func(int) error, steps ...int) {
	for _, bad := range steps {
		step, err := tr.Debug().Bisect(t.Ctx, prepare, func(n int) (bool, error) { return bad < 0 || n <= bad, nil })
		t.OK(err)
		Equal(t, step, bad, "the step that was found")
	}
}

// SameMemory checks that as much is allocated as before.
func (t *T) SameMemory(before Memory) {
	if after := t.Allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
}

// PerWorker allocates n bytes at one address of every worker, row by row.
func (t *T) PerWorker(n int) *reprise.Buffer {
	b := t.L1Buffer(n*t.Dev.Grid().Size(), n)
	t.Clear(b)
	return b
}

// WorkerIndex is the page of a core in a buffer of perWorker.
func (t *T) WorkerIndex(c chip.Core) int { return c.Y*(t.Dev.Grid().End.X+1) + c.X }

// Closing calls a function with the end of the case; the device may be closed by then.
func (t *T) Closing(fn func(context.Context) error) {
	q := t.Queue
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Ctx)
		if err := fn(ctx); err != nil && !t.Failed() && !errors.Is(err, reprise.ErrReleased) && !errors.Is(q.Wait(ctx), reprise.ErrClosed) {
			t.Error(err)
		}
	})
}

// Words reads a buffer of perWorker as words, by worker.
func (t *T) Words(b *reprise.Buffer, word int) []uint32 {
	all := t.ReadAll(b)
	out := make([]uint32, t.Dev.Grid().Size())
	for i := range out {
		out[i] = Word(all[i*b.PageSize()+4*word:])
	}
	return out
}

// WantWords compares a word of every worker with what it should be.
func (t *T) WantWords(what string, b *reprise.Buffer, word int, want func(chip.Core) uint32) {
	got := t.Words(b, word)
	wrong := 0
	for c := range t.Dev.Grid().Cores() {
		if g, w := got[t.WorkerIndex(c)], want(c); g != w {
			if wrong++; wrong <= 5 {
				t.Errorf("%s: core %v has %#x, want %#x", what, c, g, w)
			}
		}
	}
	if wrong > 5 {
		t.Errorf("%s: %d cores are wrong", what, wrong)
	}
}

// Memory is what is allocated of each kind, in bytes of a bank.
type Memory struct{ DRAM, L1, Trace uint64 }

// Allocated is what is allocated now.
func (t *T) Allocated() Memory {
	return Memory{t.Dev.Memory(allocator.DRAM).Allocated, t.Dev.Memory(allocator.L1).Allocated, t.Dev.Memory(allocator.Trace).Allocated}
}

// BufferOf allocates a buffer and frees it with the case.
func (t *T) BufferOf(c reprise.BufferConfig) *reprise.Buffer {
	b, err := t.Dev.NewBuffer(c)
	t.OK(err)
	t.Closing(func(context.Context) error { return b.Release() })
	return b
}

// Pinned is host memory that the case has until it ends.
func (t *T) Pinned(c reprise.HostBufferConfig) *reprise.HostBuffer {
	c.Name = "pinned"
	h, err := t.Dev.NewHostBuffer(c)
	if errors.Is(err, dispatch.ErrRemoteChip) {
		t.Skip("the chip reaches no memory of the host")
	}
	t.OK(err)
	t.Closing(h.Release)
	return h
}

// AllocatesNothing checks that some call of twenty allocates no memory on the host: an emulated
// device may while work is under way, so each begins at rest, on one processor. A slow device's
// process may too.
func (t *T) AllocatesNothing(what string, fn func()) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fewest := ^uint64(0)
	for i := 0; i < 20 && fewest > 0; i++ {
		t.Wait()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		fn()
		runtime.ReadMemStats(&after)
		fewest = min(fewest, after.Mallocs-before.Mallocs)
	}
	if fewest != 0 && !t.Device.Slow() {
		t.Errorf("%s allocates %d times", what, fewest)
	}
}

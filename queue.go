package reprise

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/dispatch"
)

// Queue is a hardware command queue: what is put into it runs in order. Its methods may be called from any goroutine;
// the order is that in which the calls return. Nothing orders two queues but events ([Queue.Record], [Queue.Wait]) and
// what the host has waited for.
type Queue struct {
	d   *Device
	q   *dispatch.Queue
	rec atomic.Pointer[Recorder] // that Run records into, between Begin and End

	self    []*Queue   // itself, for Calls
	inOrder sync.Mutex // held by calls that somebody listens to

	spare atomic.Pointer[Pending] // for transfers with pinned memory that are waited for

	begun, finished atomic.Uint64 // Finishes by number: the last one that began, and that returned without an error
}

// ID returns the queue's number.
func (q *Queue) ID() int { return q.q.ID() }

// Workers returns the workers that the queue starts: what its programs may use.
func (q *Queue) Workers() Range { return q.q.Workers() }

// Device returns the queue's device.
func (q *Queue) Device() *Device { return q.d }

// Write writes data to a buffer, from byte off on, after everything so far in the queue has run. It returns once the data
// are copied; the device may still be busy. Any range inside the buffer will do, but whole pages are the fastest: memory is
// written in units of 16 to 64 bytes, and one that is only written in part is read first, which waits for the queue and
// must not race with who else writes to the same unit. If ctx ends while a long write waits for room, its first part is
// written; the queue goes on. The error is a *TransferError if the range isn't inside.
func (q *Queue) Write(ctx context.Context, b *Buffer, off int, data []byte) error {
	if q.d.watch.on.Load() != nil {
		return q.d.observed(ctx, &Call{Kind: CallWrite, Queues: q.self, Name: b.label(), Object: b, Bytes: len(data)}, func() error { return q.write(ctx, b, off, data) })
	}
	return q.write(ctx, b, off, data)
}

func (q *Queue) write(ctx context.Context, b *Buffer, off int, data []byte) error {
	if err := q.check("write", b.of); err != nil {
		return err
	}
	if err := q.d.refuse(q, opWrite, b.name); err != nil {
		return err
	}
	if err := b.write(ctx, q.q, off, data); err != nil {
		return q.d.failed(fmt.Sprintf("write buffer %q", b.name), err)
	}
	return nil
}

// Read reads from a buffer, from byte off on, after everything so far in the queue has run, and waits for the data. Any
// range inside the buffer will do. The error is a *TransferError if it isn't inside.
func (q *Queue) Read(ctx context.Context, b *Buffer, off int, dst []byte) error {
	p, err := q.StartRead(ctx, b, off, dst)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// StartRead puts a Read into the queue and returns without waiting for the data. dst belongs to the read until Wait has
// returned, Done has reported true, or Abandon was called.
func (q *Queue) StartRead(ctx context.Context, b *Buffer, off int, dst []byte) (*Pending, error) {
	if q.d.watch.on.Load() == nil {
		return q.startRead(ctx, b, off, dst)
	}
	var p *Pending
	err := q.d.observed(ctx, &Call{Kind: CallRead, Queues: q.self, Name: b.label(), Object: b, Bytes: len(dst)}, func() (err error) {
		p, err = q.startRead(ctx, b, off, dst)
		return err
	})
	return p, err
}

func (q *Queue) startRead(ctx context.Context, b *Buffer, off int, dst []byte) (*Pending, error) {
	if err := q.check("read", b.of); err != nil {
		return nil, err
	}
	if err := q.d.refuse(q, opRead, b.name); err != nil {
		return nil, err
	}
	p, err := b.startRead(ctx, q.q, off, dst)
	if err != nil {
		return nil, q.d.failed(fmt.Sprintf("read buffer %q", b.name), err)
	}
	p.q, p.n = q, len(dst)
	return p, nil
}

// Run puts a program into the queue. It returns once its commands are in the issue ring. The error is a *WorkersError if
// the program has something on cores that the queue doesn't start, and an *OverlapError if another queue has put a
// program on the same workers and nothing orders the two. Between [Queue.Begin] and [Recorder.End] it records the program
// instead. If ctx ends while the commands wait for room, nothing has happened: the program isn't in the queue, not even in
// part. Only for one whose commands are larger than a quarter of the queue's memory is it too late once they have begun.
func (q *Queue) Run(ctx context.Context, x *Executable) error {
	if q.d.watch.on.Load() != nil && q.rec.Load() == nil {
		return q.d.observed(ctx, &Call{Kind: CallRun, Queues: q.self, Name: x.label(), Object: x}, func() error { return q.run(ctx, x) })
	}
	return q.run(ctx, x)
}

func (q *Queue) run(ctx context.Context, x *Executable) error {
	if err := q.d.usable("run"); err != nil {
		return err
	}
	if q.d.captures.open.Load() != nil {
		if r := q.rec.Load(); r != nil {
			return r.Run(x)
		}
		if err := q.d.refuse(q, opRun, x.label()); err != nil {
			return err
		}
	}
	if x != nil {
		// Until its commands are in the queue, where Close waits for them, nobody may give the kernels' memory away.
		x.mu.RLock()
		defer x.mu.RUnlock()
	}
	if err := x.of(q.d); err != nil {
		return fmt.Errorf("reprise: run: %w", err)
	}
	if err := q.q.Run(ctx, x.image); err != nil {
		return q.d.failed("run", overlap(err))
	}
	return nil
}

// Finish waits until everything in the queue has run and all its results are in memory.
func (q *Queue) Finish(ctx context.Context) error {
	if q.d.watch.on.Load() != nil {
		return q.d.observed(ctx, &Call{Kind: CallFinish, Queues: q.self}, func() error { return q.finish(ctx) })
	}
	return q.finish(ctx)
}

func (q *Queue) finish(ctx context.Context) error {
	if err := q.d.usable("finish"); err != nil {
		return err
	}
	if err := q.d.refuse(q, opFinish, ""); err != nil {
		return err
	}
	if err := q.await(ctx); err != nil {
		return q.d.failed("finish", err)
	}
	return nil
}

// await waits until everything in the queue has run, and frees what that was waited for with.
func (q *Queue) await(ctx context.Context) error {
	n := q.begun.Add(1)
	if err := q.q.Finish(ctx); err != nil {
		return err
	}
	for was := q.finished.Load(); was < n && !q.finished.CompareAndSwap(was, n); was = q.finished.Load() {
	}
	return q.d.freeLeft(false)
}

// check says whether the device is open and something may be used with it.
func (q *Queue) check(op string, of func(*Device) error) error {
	if err := q.d.usable(op); err != nil {
		return err
	}
	if err := of(q.d); err != nil {
		return fmt.Errorf("reprise: %s: %w", op, err)
	}
	return nil
}

// Clock reads the clock that DeviceTime of the queue's timed events comes from, without waiting for the queue.
func (q *Queue) Clock() (Clock, error) {
	if err := q.d.usable("read clock"); err != nil {
		return Clock{}, err
	}
	c, err := q.q.Clock()
	if err != nil {
		return Clock{}, q.d.failed("read clock", err)
	}
	return c, nil
}

// Await waits until done reports true, at the pace of all waits ([WithPace]): it looks again and again for a while, then
// sleeps between looks. It ends early with ctx, or in an ErrTimeout when nothing on the device moves for the hang timeout;
// the queue stays as it is. It is for what kernels store to a [HostBuffer]: done looks at memory and calls nothing of the
// device.
func (q *Queue) Await(ctx context.Context, done func() bool) error {
	if err := q.d.usable("wait"); err != nil {
		return err
	}
	if err := q.q.Await(ctx, "what the caller asked for", done); err != nil {
		return q.d.failed("wait", err)
	}
	return nil
}

package reprise

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/reprise-tt/reprise/dispatch"
)

// Queue is a hardware command queue: what is put into it runs in order. Its methods may be called from any
// goroutine.
type Queue struct {
	d   *Device
	q   *dispatch.Queue
	rec atomic.Pointer[Recorder] // that Run records into, between Begin and End
}

// ID returns the queue's number.
func (q *Queue) ID() int { return q.q.ID() }

// Device returns the queue's device.
func (q *Queue) Device() *Device { return q.d }

// Write writes data to a buffer, from byte off on, after everything so far in the queue has run. off and len(data)
// are multiples of the buffer's page. It returns once the data are copied; the device may still be busy.
func (q *Queue) Write(ctx context.Context, b *Buffer, off int, data []byte) error {
	if err := q.check("write", b.of); err != nil {
		return err
	}
	if err := q.d.refuse(q, opWrite, b.name); err != nil {
		return err
	}
	if err := q.q.Write(ctx, &b.iv, off, data); err != nil {
		return q.d.failed(fmt.Sprintf("write buffer %q", b.name), err)
	}
	return nil
}

// Read reads from a buffer, from byte off on, after everything so far in the queue has run, and waits for the data.
// off and len(dst) are multiples of the buffer's page.
func (q *Queue) Read(ctx context.Context, b *Buffer, off int, dst []byte) error {
	if err := q.check("read", b.of); err != nil {
		return err
	}
	if err := q.d.refuse(q, opRead, b.name); err != nil {
		return err
	}
	if err := q.q.Read(ctx, &b.iv, off, dst); err != nil {
		return q.d.failed(fmt.Sprintf("read buffer %q", b.name), err)
	}
	return nil
}

// Run puts a program into the queue, which must be queue 0. It returns once its commands are in the issue ring. Between
// [Queue.Begin] and [Recorder.End] it records the program instead.
func (q *Queue) Run(ctx context.Context, x *Executable) error {
	if err := q.d.usable("run"); err != nil {
		return err
	}
	if q.ID() != 0 {
		return fmt.Errorf("reprise: run: queue %d: %w", q.ID(), ErrTransferQueue)
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
		return q.d.failed("run", err)
	}
	return nil
}

// Finish waits until everything in the queue has run and all its results are in memory.
func (q *Queue) Finish(ctx context.Context) error {
	if err := q.d.usable("finish"); err != nil {
		return err
	}
	if err := q.d.refuse(q, opFinish, ""); err != nil {
		return err
	}
	if err := q.q.Finish(ctx); err != nil {
		return q.d.failed("finish", err)
	}
	return nil
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

package reprise

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/dispatch"
)

// Write writes data to a buffer, from byte off on, after everything so far in the queue has run. It returns once the data
// are copied; the device may still be busy. Any range inside the buffer will do, but whole pages are the fastest: memory is
// written in units of 16 to 64 bytes, and a unit that is only written in part is read first, which waits for the queue
// and must not race with anything else that writes to the same unit. If ctx ends while a long write waits for room, its
// first part is written; the queue goes on. The error is a *dispatch.TransferError if the range isn't inside.
func (q *Queue) Write(ctx context.Context, b *Buffer, off int, data []byte) (err error) {
	if q.d.watched() {
		defer q.d.begin(ctx, &Call{Kind: CallWrite, Queues: q.self, Name: b.label(), Object: b, Bytes: len(data)}).end(ctx, &err)
	}
	if err := q.checkTransfer(ctx, "write", opWrite, b); err != nil {
		return err
	}
	if err := b.write(ctx, q.q, off, data); err != nil {
		return q.d.opError(fmt.Sprintf("write buffer %q", b.name), err)
	}
	return nil
}

// Read reads from a buffer, from byte off on, after everything so far in the queue has run, and waits for the data. Any
// range inside the buffer will do. The error is a *dispatch.TransferError if it isn't inside.
func (q *Queue) Read(ctx context.Context, b *Buffer, off int, dst []byte) error {
	p, err := q.StartRead(ctx, b, off, dst)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// StartRead puts a Read into the queue and returns without waiting for the data. dst belongs to the read until Wait has
// returned, Done has reported true, or Abandon was called.
func (q *Queue) StartRead(ctx context.Context, b *Buffer, off int, dst []byte) (p *Pending, err error) {
	if q.d.watched() {
		defer q.d.begin(ctx, &Call{Kind: CallRead, Queues: q.self, Name: b.label(), Object: b, Bytes: len(dst)}).end(ctx, &err)
	}
	if err := q.checkTransfer(ctx, "read", opRead, b); err != nil {
		return nil, err
	}
	p = &Pending{b: b, q: q, n: len(dst)}
	if err := b.mem.StartRead(ctx, q.q, &p.transfer, off, dst); err != nil {
		return nil, q.d.opError(fmt.Sprintf("read buffer %q", b.name), err)
	}
	return p, nil
}

// checkTransfer checks that the queue can transfer data of a buffer now.
func (q *Queue) checkTransfer(ctx context.Context, name string, op captureOp, b *Buffer) error {
	if err := q.d.usable(name); err != nil {
		return err
	}
	if err := b.checkDevice(q.d); err != nil {
		return fmt.Errorf("reprise: %s: %w", name, err)
	}
	return q.d.refuse(ctx, q, op, b.name)
}

// read reads from the buffer through a queue, unobserved, and waits for the data.
func (b *Buffer) read(ctx context.Context, q *dispatch.Queue, off int, dst []byte) error {
	p := &Pending{b: b}
	if err := b.mem.StartRead(ctx, q, &p.transfer, off, dst); err != nil {
		return err
	}
	return p.wait(ctx)
}

// write writes to the buffer through a queue, unobserved.
func (b *Buffer) write(ctx context.Context, q *dispatch.Queue, off int, data []byte) error {
	return b.mem.Write(ctx, q, off, data)
}

// Pending is a read, or a write from pinned host memory, that was put into a queue. Its methods may be called from any
// goroutine.
type Pending struct {
	b        *Buffer
	q        *Queue
	n        int // bytes
	write    bool
	transfer dispatch.Transfer
}

// Wait waits for the data. When it fails, the read is abandoned: nothing is written to dst any more, unless it is pinned.
func (p *Pending) Wait(ctx context.Context) (err error) {
	if p.b.d.watched() {
		defer p.b.d.begin(ctx, &Call{Kind: CallPendingWait, Queues: p.q.self, Name: p.b.name, Object: p.b, Bytes: p.n}).end(ctx, &err)
	}
	return p.wait(ctx)
}

// wait is Wait unobserved.
func (p *Pending) wait(ctx context.Context) error {
	if err := p.transfer.Wait(ctx); err != nil {
		return p.failed(err)
	}
	return nil
}

// Done reports whether all data have arrived, without waiting.
func (p *Pending) Done() (bool, error) {
	done, err := p.transfer.Done()
	if err != nil {
		return false, p.failed(err)
	}
	return done, nil
}

// Abandon returns dst to the caller: nothing is written to it any more, unless it is pinned. The read itself stays in the
// queue.
func (p *Pending) Abandon() { p.transfer.Abandon() }

func (p *Pending) failed(err error) error {
	op := "read"
	if p.write {
		op = "write"
	}
	return p.b.d.opError(fmt.Sprintf("%s buffer %q", op, p.b.name), err)
}

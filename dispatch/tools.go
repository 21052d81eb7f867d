package dispatch

import (
	"context"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// Raw commands for tools and conformance tests. Commands that break the rules of package cq stop
// the queue's kernels for good.

// Send sends commands as one prefetch queue entry, whose stall bit only commands that end in an
// EXEC_BUF have. It returns once they are in the issue ring. Commands that change the completion
// count or the workers' launch pointers need a [Queue.SetState] after them.
func (q *Queue) Send(ctx context.Context, commands []byte, stall bool) (err error) {
	defer q.leave(&err, q.enter())
	if err := q.sendable("send", commands); err != nil {
		return err
	}
	q.history.last.Store(&opRaw)
	return q.sendLocked(ctx, commands, stall)
}

// Receive sends commands with one WRITE_LINEAR_H_HOST of data that names the queue in its Pad1 and
// carries len(dst) bytes, and waits for these.
func (q *Queue) Receive(ctx context.Context, commands, dst []byte) error {
	c, err := q.enqueueReceive(ctx, commands, dst)
	if err != nil {
		return err
	}
	err = q.awaitReport(ctx, "data of raw commands", c)
	if err != nil {
		q.comp.abandon(c.read)
	}
	return err
}

func (q *Queue) enqueueReceive(ctx context.Context, commands, dst []byte) (done *completion, err error) {
	defer q.leave(&err, q.enter())
	if err := q.sendable("receive", commands); err != nil {
		return nil, err
	}
	c := &completion{dst: dst, hostPage: max(1, len(dst)), devPage: max(1, len(dst)), read: &read{}}
	q.comp.push(c)
	q.history.last.Store(&opRaw)
	if err := q.sendLocked(ctx, commands, false); err != nil {
		q.comp.takeBack(c)
		return nil, err
	}
	return c, nil
}

func (q *Queue) sendable(op string, commands []byte) error {
	if err := q.usable(op); err != nil {
		return err
	}
	if n := len(commands); n == 0 || n > memmap.MaxCommandSize || n%q.d.layout().PCIeAlign() != 0 {
		return q.errorf("%s %d B of commands: give a multiple of %d B, at most %d B", op, n,
			q.d.layout().PCIeAlign(), memmap.MaxCommandSize)
	}
	return nil
}

// SetState sets the state of the workers and their completion count after raw commands.
func (q *Queue) SetState(st State) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shared {
		q.forceAcquireLocked()
	}
	q.stream.lanes[0].state, q.stream.lastPrepared = st, nil
}

// Cores returns the logical coordinates of the queue's prefetch core and dispatch core.
func (q *Queue) Cores() (prefetch, dispatch chip.Core) { return q.tiles.prefetch, q.tiles.dispatch }

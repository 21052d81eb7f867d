package dispatch

import (
	"context"
	"fmt"
)

// sendBatchesLocked sends commands that need several batches, cut at each of ends, the last of which is all of them: all are
// sent or none, so that a context that ends changes nothing. For commands that don't fit the issue ring at once, the context
// ends only the wait for the first batch. After that half a program is in the queue, which can end only with its other half:
// the rest follows as the device takes one batch after the other, and only a device that stops ends the call.
func (q *Queue) sendBatchesLocked(ctx context.Context, what string, p []byte, ends []int) error {
	// A ring holds this much wherever it begins, with the batch before still being read.
	if n := len(p); n <= (len(q.rings.issue.mem)-maxCommandSize)/2 && len(ends) < int(q.rings.fetch.entries)/2 {
		return q.sendTogetherLocked(ctx, p, ends)
	}
	start := 0
	for _, end := range ends {
		if err := q.sendLocked(ctx, p[start:end], false); err != nil {
			if start > 0 {
				return q.fail(fmt.Errorf("dispatch: queue %d: %s was cut off in the middle: %w", q.id, what, err))
			}
			return err
		}
		start, ctx = end, context.WithoutCancel(ctx)
	}
	return nil
}

// sendTogetherLocked sends commands in batches, cut at each of ends: all of them or none.
func (q *Queue) sendTogetherLocked(ctx context.Context, p []byte, ends []int) error {
	if err := q.roomForLocked(ctx, ends); err != nil {
		return err
	}
	start := 0
	for _, end := range ends {
		// Each batch is placed at the offset at which the prefetcher will read it, which may be the start of the ring.
		off := q.rings.issue.place(uint32(end - start))
		copy(q.rings.issue.mem[off:], p[start:end])
		q.publishLocked(off, uint32(end-start), false)
		start = end
	}
	return nil
}

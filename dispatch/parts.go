package dispatch

import (
	"context"
	"fmt"
)

// sendBatchesLocked sends commands that need several batches, cut behind each of ends, the last of which is all of them: either
// all are sent or none, so that a context that ends costs nothing. Commands that are too long to find room in the issue
// ring at once wait for it with the context up to the first batch. From then on what is in the queue is half a program,
// which comes to an end only with its other half: as the device takes one batch after the other, the rest follows, and only
// a device that stops ends it. Called with mu held.
func (q *Queue) sendBatchesLocked(ctx context.Context, what string, p []byte, ends []int) error {
	// With the batch before still being read, a ring holds this much whatever its place.
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

// sendTogetherLocked sends commands in batches, cut behind each of ends: all of them or none. Called with mu held.
func (q *Queue) sendTogetherLocked(ctx context.Context, p []byte, ends []int) error {
	if err := q.roomForLocked(ctx, ends); err != nil {
		return err
	}
	start := 0
	for _, end := range ends {
		// Each for itself goes to where the prefetcher looks for it, which may be the start of the ring.
		off := q.rings.issue.place(uint32(end - start))
		copy(q.rings.issue.mem[off:], p[start:end])
		q.publishLocked(off, uint32(end-start), false)
		start = end
	}
	return nil
}

package reprise_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
)

// A wait for something of the caller's own ends when it is there, with its context, or when nothing
// moves, and whatever ends it, the queue goes on.
func TestAwait(t *testing.T) {
	onEmulators(t, func(b *bench) {
		// A few looks after it has begun to sleep between them: a slow machine makes each of these
		// count for 10 ms.
		const sleeps = 70
		looks := 0
		b.must(b.queue.WaitFunc(b.ctx, func() bool { looks++; return looks > sleeps }))
		never := func() bool { return false }
		why := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(b.ctx)
		looks = 0
		enough := func() bool {
			if looks++; looks > sleeps {
				cancel(why)
			}
			return false
		}
		if err := b.queue.WaitFunc(ctx, enough); !errors.Is(err, why) {
			b.Errorf("error %v, want %v", err, why)
		}
		err := b.queue.WaitFunc(b.ctx, never)
		var hang *dispatch.HangError
		if !errors.Is(err, reprise.ErrTimeout) || errors.As(err, &hang) {
			b.Errorf("error %v, want %v and no hang", err, reprise.ErrTimeout)
		}
		b.must(b.queue.Wait(b.ctx))
		b.must(b.dev.Close(ctx))
		if err := b.queue.WaitFunc(b.ctx, never); !errors.Is(err, reprise.ErrClosed) {
			b.Errorf("of a closed device: %v", err)
		}
	}, reprise.WithHangTimeout(200*time.Millisecond))
}

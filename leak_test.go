package reprise_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
)

// What a device holds is garbage once it is closed and its owner forgets it, with programs and a
// trace that were never released.
func TestClosedDeviceIsGarbage(t *testing.T) {
	collected := make(chan struct{})
	func() {
		b := &bench{T: t, ctx: t.Context()}
		var err error
		b.dev, err = reprise.Open(b.ctx, sim.Blackhole())
		b.must(err)
		b.queue = b.dev.Queue(0)
		x := b.load(b.blank("blank", chip.Single(0, 0)))
		b.must(b.queue.Run(b.ctx, x))
		b.must(b.capture("trace", x).Replay(b.ctx))
		runtime.AddCleanup(b.dev, func(c chan struct{}) { close(c) }, collected)
		b.must(b.dev.Close(context.Background()))
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-collected:
			return
		case <-time.After(10 * time.Millisecond): // clean-ups run on another goroutine
		}
	}
	t.Error("something keeps a device that was closed")
}

package reprise_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
)

// The report of a hang says in words what the engines of a worker wait for, where the device can
// tell.
func TestHangOfTheEngines(t *testing.T) {
	onEmulators(t, func(b *bench) {
		p, err := devtest.SemaphoreWait(b.ctx, b.dev, chip.Core{X: 2, Y: 1}, 0)
		if errors.Is(err, kernels.ErrNoCompiler) {
			b.Skip(err)
		}
		b.must(err)
		x := b.load(p)
		b.must(b.queue.Run(b.ctx, x))
		h := b.hang(b.queue.Wait(b.ctx))
		if want := "its engines: SEMWAIT 0xa6ff8005 waits while semaphore 0 is 0"; !strings.Contains(h.Detail(), want) {
			b.Errorf("the report doesn't say %q:\n%s", want, h.Detail())
		}
	}, reprise.WithHangTimeout(300*time.Millisecond))
}

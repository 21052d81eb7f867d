package reprise_test

import (
	"errors"
	"runtime/debug"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
)

// cpuTime is what the process has used of the processors.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// An open device with two idle queues takes no processor time: all goroutines are parked.
func TestIdleDeviceBurnsNothing(t *testing.T) {
	onEmulators(t, func(b *bench) {
		x := b.load(b.blank("nothing", b.dev.Grid()))
		b.must(b.queue.Run(b.ctx, x))
		for id := range b.dev.Queues() {
			b.must(b.dev.Queue(id).Wait(b.ctx))
		}
		const idle = 300 * time.Millisecond
		// Garbage is collected and returned to the system here, which the runtime would do in small
		// portions for a while. Whatever earlier tests have left running ends in a few tries; a
		// busy loop doesn't.
		var used time.Duration
		for range 5 {
			debug.FreeOSMemory()
			time.Sleep(20 * time.Millisecond)
			before := cpuTime(b.T)
			time.Sleep(idle)
			if used = cpuTime(b.T) - before; used < 5*time.Millisecond {
				return
			}
		}
		b.Errorf("%v of processor time in %v of doing nothing", used, idle)
	}, reprise.WithQueues(2))
}

// Whatever the pace, waits end when what they wait for is there, and a hang is still a hang.
func TestPaces(t *testing.T) {
	for _, pace := range []struct{ spin, longest time.Duration }{
		{0, 0}, {time.Hour, time.Hour}, {50 * time.Microsecond, 5 * time.Millisecond},
	} {
		b := open(t, emulators[0](), reprise.WithPace(pace.spin, pace.longest), reprise.WithHangTimeout(150*time.Millisecond))
		in, out := b.pages("in", 4), b.pages("out", 4)
		x := b.load(b.adder("add", chip.Core{}, in, out, 3))
		for i := range uint32(20) {
			b.write(in, i)
			b.must(b.queue.Run(b.ctx, x))
			b.holds(out, i+3)
		}
		b.must(b.queue.Run(b.ctx, b.spin("forever", b.word(), chip.BRISC, chip.Single(0, 0))))
		var hang *dispatch.HangError
		if err := b.queue.Wait(b.ctx); !errors.As(err, &hang) {
			t.Errorf("spin %v, longest %v: %v", pace.spin, pace.longest, err)
		}
	}
}

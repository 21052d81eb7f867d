package reprise_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

// rig is a device with something of everything on it, which a recovery must keep.
type rig struct {
	*bench
	in, mid, out *reprise.Buffer
	first        *reprise.Executable
	trace        *reprise.Trace
	before       map[allocator.Kind]uint64
}

// newRig loads two programs and records them; the second one is closed again, so that only the
// trace has its kernels.
func newRig(b *bench) *rig {
	b.Helper()
	r := &rig{bench: b, in: b.pages("in", 8), mid: b.pages("mid", 8), out: b.pages("out", 8)}
	r.first = b.load(b.adder("first", chip.Core{X: 1}, r.in, r.mid, 10))
	second := b.load(b.adder("second", chip.Core{X: 2, Y: 1}, r.mid, r.out, 100))
	r.trace = b.capture("both", r.first, second)
	b.must(second.Release(b.ctx))
	r.works("before")
	r.before = b.allocated()
	return r
}

// works runs everything that there is.
func (r *rig) works(when string) {
	r.Helper()
	r.write(r.in, 7)
	r.write(r.mid, 0)
	r.write(r.out, 0)
	for range 3 {
		r.must(r.trace.Replay(r.ctx))
	}
	r.holds(r.mid, 17)
	r.holds(r.out, 117)
	r.write(r.in, 1000)
	r.must(r.queue.Run(r.ctx, r.first))
	r.must(r.queue.Wait(r.ctx))
	r.holds(r.mid, 1010)
	if r.Failed() {
		r.Fatalf("%s: wrong results", when)
	}
}

// recovers recovers the device and checks that nothing was lost, and that new things work as well
// as old ones.
func (r *rig) recovers() {
	r.Helper()
	r.must(r.dev.Recover(r.ctx))
	if diff := cmp.Diff(r.before, r.allocated()); diff != "" {
		r.Errorf("allocated memory (-before +after):\n%s", diff)
	}
	r.works("after Recover")
	x := r.load(r.adder("new", chip.Core{X: 1, Y: 2}, r.in, r.out, 5))
	t := r.capture("new", x)
	r.must(t.Replay(r.ctx))
	r.holds(r.out, 1005)
	r.must(t.Release(r.ctx))
	r.must(x.Release(r.ctx))
	if diff := cmp.Diff(r.before, r.allocated()); diff != "" {
		r.Errorf("allocated memory (-before +after new things):\n%s", diff)
	}
}

// short is long enough for a loaded machine to show progress, and short enough to wait for.
var short = reprise.WithHangTimeout(1500 * time.Millisecond)

// A kernel that does what the hardware leaves undefined stops the emulated chip. Recover starts it
// anew.
func TestRecoverFromAStoppedChip(t *testing.T) {
	onEmulators(t, func(b *bench) {
		r := newRig(b)
		wild := b.load(&reprise.Program{Name: "wild", Kernels: []reprise.Kernel{{
			Name: "store", Image: b.image(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
			Args: func(chip.Core) []uint32 { return []uint32{0x7FFF0000, 1, 1} },
		}}})
		r.before = b.allocated()
		b.must(b.queue.Run(b.ctx, wild))
		err := b.queue.Wait(b.ctx)
		h := b.hang(err)
		if !strings.Contains(h.Error(), "0x7fff0000") || h.Dump.Unreachable == "" {
			b.Errorf("%v; unreachable: %q; want the address that was touched", err, h.Dump.Unreachable)
		}
		r.recovers()
	}, short)
}

// Whoever waits while the device is recovered learns so, and nobody waits for a report that can't
// come any more.
func TestRecoverEndsWaits(t *testing.T) {
	onEmulators(t, func(b *bench) {
		word := b.word()
		r := newRig(b)
		forever := b.spin("forever", word, chip.TRISC2, chip.Single(1, 1))
		r.before = b.allocated()
		b.must(b.queue.Run(b.ctx, forever))
		errs := make(chan error)
		const waiters = 3
		for range waiters {
			go func() { errs <- b.queue.Wait(b.ctx) }()
		}
		time.Sleep(5 * time.Millisecond) // so that some of them wait already; the outcome is the same if not
		done := make(chan error, 1)
		go func() { done <- b.dev.Recover(b.ctx) }()
		for range waiters {
			// One that begins to wait after the recovery finds nothing to wait for.
			if err := <-errs; err != nil && !errors.Is(err, reprise.ErrRecovering) {
				b.Errorf("a wait ended with %v, want %v", err, reprise.ErrRecovering)
			}
		}
		b.must(<-done)
		r.recovers()
	})
}

// A closed device can't be recovered, a cancelled recovery says so and can be repeated, and Close
// ends one.
func TestRecoverErrors(t *testing.T) {
	b := open(t, sim.Blackhole())
	r := newRig(b)
	cancelled, cancel := context.WithCancelCause(b.ctx)
	cancel(errors.New("no time"))
	err := b.dev.Recover(cancelled)
	var re *reprise.RecoverError
	if !errors.As(err, &re) || re.Step != "start" {
		t.Errorf("%v, want a *RecoverError of the start", err)
	}
	b.says(err, "reprise: recover emulated blackhole 0: start:")
	if err := b.queue.Wait(b.ctx); !errors.Is(err, reprise.ErrRecovering) {
		t.Errorf("after a recovery that failed: %v, want %v", err, reprise.ErrRecovering)
	}
	r.recovers()
	b.must(b.dev.Close(t.Context()))
	if err := b.dev.Recover(b.ctx); !errors.Is(err, reprise.ErrClosed) {
		t.Errorf("recover a closed device: %v, want %v", err, reprise.ErrClosed)
	}
}

// dispatchCore returns the virtual coordinate of the core that runs the dispatcher of queue 0: the
// second one of the last row on Wormhole, of the last column on Blackhole.
func dispatchCore(b *bench) chip.XY {
	b.Helper()
	c, err := chip.New(b.dev.Arch(), chip.Harvesting{})
	b.must(err)
	w, h := c.Grid()
	core := chip.Core{X: w - 1, Y: 1}
	if b.dev.Arch() == chip.Wormhole {
		core = chip.Core{X: 1, Y: h - 1}
	}
	xy, err := c.Virtual(core)
	b.must(err)
	return xy
}

package reprise_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/sim"
)

// programTimes reads the times of n programs, once they are done.
func (b *bench) programTimes(p *dispatch.ProgramTimes, n int) []dispatch.ProgramTime {
	b.Helper()
	var out []dispatch.ProgramTime
	b.must(b.queue.WaitFunc(b.ctx, func() bool {
		var lost int
		var err error
		out, lost, err = p.Append(out)
		b.must(err)
		if lost != 0 {
			b.Fatalf("%d programs were lost", lost)
		}
		return len(out) >= n
	}))
	if len(out) != n {
		b.Fatalf("%d programs have run, want %d", len(out), n)
	}
	for i, t := range out {
		if t.End < t.Start || i > 0 && t.Start < out[i-1].End {
			b.Fatalf("program %d ran from %d to %d, the one before to %d", i, t.Start, t.End, out[max(i, 1)-1].End)
		}
	}
	return out
}

// A program's time is from when those before were done to when its kernels were, by the clock of
// the queue, also while it is not known when it will end.
func TestProgramTimes(t *testing.T) {
	onAll(t, func(b *bench) {
		word := b.word()
		short, long := b.load(b.blank("short", b.dev.Grid())), b.spin("long", word, chip.BRISC, chip.Single(0, 0))
		p, err := b.queue.ProgramTimes()
		b.must(err)
		for _, x := range []*reprise.Executable{short, long, short} {
			b.must(b.queue.Run(b.ctx, x))
		}
		b.programTimes(p, 1) // the second can't be done
		if more, _, err := p.Append(nil); len(more) != 0 || err != nil {
			b.Fatalf("a program that runs has times %v (%v)", more, err)
		}
		during, err := b.queue.Clock()
		b.must(err)
		b.letGo(b.dev.Queue(1), word)
		b.must(b.queue.Wait(b.ctx))
		after, err := b.queue.Clock()
		b.must(err)
		rest := b.programTimes(p, 2)
		if rest[0].End < during.Cycles || rest[1].End > after.Cycles {
			b.Errorf("programs ran %v; at %d the first was not done, at %d both were", rest, during.Cycles, after.Cycles)
		}
	}, reprise.WithQueues(2))
}

// Each run of a program in a trace has its time, in every iteration of a loop. Those that nobody
// has read in time are counted.
func TestProgramTimesOfTraces(t *testing.T) {
	onAll(t, func(b *bench) {
		x := b.load(b.blank("blank", chip.Single(0, 0)))
		p, err := b.queue.ProgramTimes()
		b.must(err)
		loop := b.captureFlow(func(r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.Loop(5, func() error { return errors.Join(r.Run(x), r.Run(x)) }))
		})
		for range 2 {
			b.must(loop.Replay(b.ctx))
		}
		b.programTimes(p, 2*(1+5*2))
		const programs, replays, kept = 600, 4, 1023
		long := b.capture("long", slices.Repeat([]*reprise.Executable{x}, programs)...)
		for range replays {
			b.must(long.Replay(b.ctx))
		}
		b.must(b.queue.Wait(b.ctx))
		var all []dispatch.ProgramTime
		var lost int
		b.must(b.queue.WaitFunc(b.ctx, func() bool {
			var n int
			all, n, err = p.Append(all)
			b.must(err)
			lost += n
			return len(all)+lost == programs*replays
		}))
		if lost != programs*replays-kept || len(all) != kept {
			b.Errorf("of %d programs %d have times and %d were lost, want %d", programs*replays, len(all), lost, kept)
		}
	})
}

// A queue that was restarted counts its programs anew, so what reads their times says so.
func TestProgramTimesAfterRecover(t *testing.T) {
	b := openAs(t, sim.Blackhole())
	p, err := b.queue.ProgramTimes()
	b.must(err)
	b.must(b.dev.Recover(b.ctx))
	if _, _, err := p.Append(nil); !errors.Is(err, dispatch.ErrTimesLost) {
		t.Errorf("after Recover: %v, want %v", err, dispatch.ErrTimesLost)
	}
}

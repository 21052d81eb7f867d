package hwtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
)

// VictimRunning is the line that [Victim] writes once it replays.
const VictimRunning = rig.VictimRunning

// VictimQueues is the number of command queues that [Victim] opens.
const VictimQueues = 2

// Victim is the process that the suite kills: it checks a program and a trace, takes a lock and a
// window, writes [VictimRunning] to out, and replays until ctx ends or something fails. With once
// it returns after the checks.
func Victim(ctx context.Context, t kmd.Target, once bool, out io.Writer) (err error) {
	dev, err := reprise.Open(ctx, t, reprise.WithQueueMemory(1<<20), reprise.WithQueues(VictimQueues))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	v := victim{dev: dev}
	for _, b := range []struct {
		to   **reprise.Buffer
		name string
	}{{&v.in, "in"}, {&v.out, "out"}} {
		if *b.to, err = dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: victimPages * victimPage, PageSize: victimPage,
			Name: b.name}); err != nil {
			return err
		}
	}
	if err := v.check(ctx); err != nil {
		return err
	}
	if once {
		return v.trace.Release(ctx)
	}
	lock, err := holdLock(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	const first = 20 // replays, before it may be killed
	for i := 0; ; i++ {
		if i == first {
			if _, err := fmt.Fprintln(out, VictimRunning); err != nil {
				return err
			}
		}
		if err := v.trace.Replay(ctx); err != nil {
			return err
		}
		if err := dev.Queue(1).Read(ctx, v.out, 0, make([]byte, victimPages*victimPage)); err != nil {
			return err
		}
	}
}

const (
	victimPages = 4
	victimPage  = 64
	addend      = 7
)

type victim struct {
	dev     *reprise.Device
	in, out *reprise.Buffer
	trace   *reprise.Trace
}

func (v *victim) check(ctx context.Context) error {
	q := v.dev.Queue(0)
	p, err := rig.Adding(v.dev.Arch(), "add", chip.Core{X: 1}, v.in, v.out, addend)
	if err != nil {
		return err
	}
	x, err := v.dev.Load(ctx, p)
	if err != nil {
		return err
	}
	if v.trace, err = q.Capture(ctx, "add", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) }); err != nil {
		return err
	}
	for i, run := range []func() error{func() error { return q.Run(ctx, x) }, func() error { return v.trace.Replay(ctx) }} {
		first := uint32(1000 * (i + 1))
		if err := q.Write(ctx, v.in, 0, countUp(first)); err != nil {
			return err
		}
		if err := run(); err != nil {
			return err
		}
		got := make([]byte, victimPages*victimPage)
		if err := q.Read(ctx, v.out, 0, got); err != nil {
			return err
		}
		if want := countUp(first + addend); !bytes.Equal(got, want) {
			return fmt.Errorf("hwtest: run %d: wrong results: %x, want %x", i, got, want)
		}
	}
	return nil
}

func countUp(first uint32) []byte {
	return rig.MakeWords(victimPages*victimPage, func(i uint32) uint32 { return first + i })
}

// holdLock takes what a killed process must not keep, but no pinned memory: when the driver gives
// up an outbound region (tt-kmd configure_outbound_atu), it overlaps others for a moment, which
// the emulator refuses.
func holdLock(ctx context.Context, t kmd.Target) (*kmd.Device, error) {
	d, err := kmd.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	if _, err := d.Lock(ctx, kmd.LockPCIeDMA); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if _, err := d.OpenWindow(2<<20, kmd.WriteCombined); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

package hwtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"

	"github.com/reprise-tt/reprise"
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
func Victim(ctx context.Context, device kmd.Target, once bool, out io.Writer) error {
	tr := newTrial(ctx)
	<-tr.start(func(tb tb) {
		t := &rig.T{TB: tb, Ctx: ctx, Shared: &rig.Shared{}, Device: &target.Device{}, Config: &rig.Settings{}}
		t = t.Unclosed(device, reprise.WithQueueMemory(1<<20), reprise.WithQueues(VictimQueues))
		t.Ends(func() error { return t.Dev.Close(ctx) })
		in, sum := t.DRAMBuffer(4*64, 64), t.DRAMBuffer(4*64, 64)
		count := func(first uint32) []byte { return rig.MakeWords(in.Size(), func(i uint32) uint32 { return first + i }) }
		x := t.Load(t.AddProgram("add", chip.Core{X: 1}, in, sum, 7))
		trace := t.Capture("add", x)
		for i, run := range []func(){func() { t.Start(x) }, func() { t.Replay(trace) }} {
			t.Write(in, count(uint32(1000*i)))
			run()
			t.Holds(sum, count(uint32(1000*i+7)), "run %d", i)
		}
		if once {
			return
		}
		lock, err := holdLock(ctx, device)
		t.OK(err)
		t.Cleanup(func() { _ = lock.Close() })
		const first = 20 // replays, before it may be killed
		for i := 0; ; i++ {
			if i == first {
				t.OK(rig.Error(fmt.Fprintln(out, VictimRunning)))
			}
			t.OK(trace.Replay(ctx), t.Dev.Queue(1).Read(ctx, sum, 0, make([]byte, sum.Size())))
		}
	})
	if _, _, log := tr.outcome(); log != nil {
		return fmt.Errorf("hwtest: %s", strings.Join(log, "\n"))
	}
	return nil
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

package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
)

// A trace is recorded on one device, kept in a file, and run on another of the same kind.
func ExampleTrace_Save() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	layer := blank(ctx, dev, "layer")
	trace, err := dev.Queue(0).Capture(ctx, "two layers", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(layer), r.Run(layer))
	})
	check(err)
	var file bytes.Buffer
	check(trace.Save(ctx, &file, reprise.WithData()))
	check(dev.Close(ctx))

	other, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	loaded, err := other.LoadTrace(ctx, &file)
	check(err)
	check(loaded.Replay(ctx))
	check(other.Queue(0).Wait(ctx))
	for i, s := range loaded.Parts()[0].Steps {
		fmt.Println(i, s.Name)
	}
	check(other.Close(ctx))
	// Output:
	// 0 layer
	// 1 layer
}

// A file that isn't for a device says why.
func ExampleDevice_LoadTrace() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	layer := blank(ctx, dev, "layer")
	trace, err := dev.Queue(0).Capture(ctx, "layer", func(_ context.Context, r *reprise.Recorder) error { return r.Run(layer) })
	check(err)
	var file bytes.Buffer
	check(trace.Save(ctx, &file))
	check(dev.Close(ctx))

	wormhole, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	_, err = wormhole.LoadTrace(ctx, &file)
	fmt.Println(errors.Is(err, reprise.ErrOtherTarget))
	fmt.Println(err)
	check(wormhole.Close(ctx))
	// Output:
	// true
	// reprise: load trace "layer": the trace is for another kind of device: its architecture is blackhole, this device's is wormhole; record it again here
}

// A trace over two queues is kept in a file too. Loaded, it can be stepped through: program by
// program, in an order that its edges allow.
func ExampleDevice_LoadTrace_queues() {
	ctx := context.Background()
	split := []reprise.Option{
		reprise.WithQueues(2), reprise.WithQueueWorkers(0, chip.Grid(2, 2)),
		reprise.WithQueueWorkers(1, chip.Range{Start: chip.Core{X: 2}, End: chip.Core{X: 3, Y: 1}}),
	}
	dev, err := reprise.Open(ctx, sim.Blackhole(), split...)
	check(err)
	first, last := blank(ctx, dev, "first", chip.Grid(2, 2)), blank(ctx, dev, "last", chip.Single(2, 0))
	done := dev.NewEvent("first is done")
	second := dev.Queue(1)
	trace, err := dev.Queue(0).Capture(ctx, "both", func(_ context.Context, r *reprise.Recorder) error {
		other := r.On(second)
		return errors.Join(r.Run(first), r.Record(done), other.WaitEvent(done), other.Run(last))
	}, second)
	check(err)
	var file bytes.Buffer
	check(trace.Save(ctx, &file))
	check(dev.Close(ctx))

	other, err := reprise.Open(ctx, sim.Blackhole(), split...)
	check(err)
	loaded, err := other.LoadTrace(ctx, &file)
	check(err)
	programs := loaded.Debug().Programs()
	check(loaded.Debug().Step(ctx, func(step int) error {
		fmt.Println(programs[step].Name, "on queue", programs[step].Queue)
		return nil
	}))
	check(other.Close(ctx))
	// Output:
	// first on queue 0
	// last on queue 1
}

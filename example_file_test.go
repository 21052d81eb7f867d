package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/sim"
)

// A trace is recorded on one device, kept in a file, and run on another of the same kind.
func ExampleTrace_Save() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	layer := blank(ctx, dev, "layer")
	trace, err := dev.Queue(0).Capture(ctx, "two layers", func(r *reprise.Recorder) error {
		return errors.Join(r.Run(layer), r.Run(layer))
	})
	check(err)
	var file bytes.Buffer
	check(trace.Save(ctx, &file, reprise.WithData()))
	check(dev.Close())

	other, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	loaded, err := other.LoadTrace(ctx, &file)
	check(err)
	check(loaded.Replay(ctx))
	check(other.Queue(0).Finish(ctx))
	for i, s := range loaded.Steps() {
		fmt.Println(i, s.Name)
	}
	check(other.Close())
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
	trace, err := dev.Queue(0).Capture(ctx, "layer", func(r *reprise.Recorder) error { return r.Run(layer) })
	check(err)
	var file bytes.Buffer
	check(trace.Save(ctx, &file))
	check(dev.Close())

	wormhole, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	_, err = wormhole.LoadTrace(ctx, &file)
	fmt.Println(errors.Is(err, reprise.ErrOtherTarget))
	fmt.Println(err)
	check(wormhole.Close())
	// Output:
	// true
	// reprise: load trace "layer": the trace is for another kind of device: its architecture is blackhole, this device's is wormhole; record it again here
}

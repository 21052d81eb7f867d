package reprise_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/sim"
)

// One replay runs a program until a word in DRAM has reached a value, and then one of two others.
func ExampleRecorder_While() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	defer dev.Close(ctx)
	queue := dev.Queue(0)
	state, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Name: "state"})
	check(err)
	adds := func(n uint32) *reprise.Executable { // a program that adds n to every word of state
		p, err := devtest.Adder(dev, fmt.Sprint("add ", n), chip.Core{}, state, state, n)
		check(err)
		x, err := dev.Load(ctx, p)
		check(err)
		return x
	}
	step, even, odd := adds(3), adds(100), adds(1000)

	trace, err := queue.Capture(ctx, "count", func(_ context.Context, r *reprise.Recorder) error {
		below := reprise.Cond{Buffer: state, Offset: 0, Is: cq.Less, Value: 20}
		if err := r.While(below, 100, func() error { return r.Run(step) }); err != nil {
			return err
		}
		isOdd := reprise.Cond{Buffer: state, Offset: 0, Is: cq.AnySet, Value: 1}
		return r.If(isOdd, func() error { return r.Run(odd) }, func() error { return r.Run(even) })
	})
	check(err)
	defer trace.Release(ctx)
	word := make([]byte, 64)
	for _, first := range []uint32{0, 1, 19} {
		binary.LittleEndian.PutUint32(word, first)
		check(queue.Write(ctx, state, 0, word))
		check(trace.Replay(ctx))
		check(queue.Read(ctx, state, 0, word))
		fmt.Println(first, "->", binary.LittleEndian.Uint32(word))
	}
	// Output:
	// 0 -> 1021
	// 1 -> 122
	// 19 -> 122
}

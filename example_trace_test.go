package reprise_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

func storing(ctx context.Context, dev *reprise.Device, name string, to *reprise.Buffer, value uint32) *reprise.Executable {
	im, err := kernels.Prebuilt(dev.Arch(), kernels.Store)
	check(err)
	x, err := dev.Load(ctx, &reprise.Program{Name: name, Buffers: []*reprise.Buffer{to}, Kernels: []reprise.Kernel{{
		Name: "store", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)}, Common: []uint32{0},
		Args: func(chip.Core) []uint32 { return []uint32{to.Addr(), 1, value} },
	}}})
	check(err)
	return x
}

func word(ctx context.Context, q *reprise.Queue, b *reprise.Buffer) byte {
	p := make([]byte, b.Size())
	check(q.Read(ctx, b, 0, p))
	return p[0]
}

// Code that runs programs on a queue can be recorded unchanged between Begin and End.
func ExampleQueue_Begin() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	queue := dev.Queue(0)
	first, second := blank(ctx, dev, "first"), blank(ctx, dev, "second")
	forward := func() {
		check(queue.Run(ctx, first))
		check(queue.Run(ctx, second))
	}
	forward() // runs

	rec, err := queue.Begin("model")
	check(err)
	forward() // is recorded
	trace, err := rec.End(ctx)
	check(err)
	fmt.Println(len(trace.Parts()[0].Steps), "programs")

	// Calls that a trace can't hold are refused, with their name and place.
	rec, err = queue.Begin("wrong")
	check(err)
	err = queue.Wait(ctx)
	var ce *reprise.CaptureError
	if errors.As(err, &ce) {
		fmt.Printf("%s in %s: %v\n", ce.Op, filepath.Base(ce.File), ce.Err)
	}
	check(rec.Discard())
	// Output:
	// 2 programs
	// wait for queue in example_trace_test.go: it can't be part of a trace
}

// A parameter is an argument that can be set for each replay.
func ExampleTrace_Set() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	defer dev.Close(ctx)
	queue := dev.Queue(0)
	out, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 16, Name: "out"})
	check(err)
	x := storing(ctx, dev, "store", out, 1)

	trace, err := queue.Capture(ctx, "step", func(_ context.Context, r *reprise.Recorder) error {
		if err := r.Run(x); err != nil {
			return err
		}
		return r.Param("position", reprise.Arg{Kernel: "store", Index: 2})
	})
	check(err)
	for position := range uint32(3) {
		check(trace.Set("position", 10+position))
		check(trace.Replay(ctx)) // writes the word that has changed, and replays
		fmt.Println(word(ctx, queue, out))
	}
	fmt.Println(trace.Set("pos", 1))
	// Output:
	// 10
	// 11
	// 12
	// reprise: trace "step": set parameter "pos": the trace has no such parameter: it has "position"
}

// Programs of a trace can be run one by one, to look at what each does.
func ExampleTrace_Debug() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	queue := dev.Queue(0)
	out, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 16, Name: "out"})
	check(err)
	first, second := storing(ctx, dev, "first", out, 5), storing(ctx, dev, "second", out, 6)
	trace, err := queue.Capture(ctx, "two", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(first), r.Run(second))
	})
	check(err)
	check(trace.Debug().Step(ctx, func(step int) error {
		fmt.Println(trace.Parts()[0].Steps[step].Name, word(ctx, queue, out))
		return nil
	}))
	check(trace.Debug().Check(ctx)) // a replay does what the programs do
	// Output:
	// first 5
	// second 6
}

// Bisect finds the program after which a result is wrong.
func ExampleTrace_Debug_bisect() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	queue := dev.Queue(0)
	out, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 16, Name: "out"})
	check(err)
	right, wrong := storing(ctx, dev, "right", out, 1), storing(ctx, dev, "wrong", out, 99)
	trace, err := queue.Capture(ctx, "model", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(right), r.Run(right), r.Run(wrong))
	})
	check(err)
	step, err := trace.Debug().Bisect(ctx, nil, func(int) (bool, error) { return word(ctx, queue, out) == 1, nil })
	check(err)
	fmt.Printf("step %d, program %q\n", step, trace.Parts()[0].Steps[step].Name)
	// Output:
	// step 2, program "wrong"
}

// Traces that share a pool for their intermediate buffers together cost no more than the largest.
func ExamplePool() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	queue := dev.Queue(0)
	pool, err := dev.NewPool(reprise.PoolConfig{Kind: allocator.L1, Size: 64 << 10, Name: "scratch"})
	check(err)
	to := reprise.Arg{Kernel: "store", Index: 0}
	out, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 16, Name: "out"})
	check(err)
	x := storing(ctx, dev, "x", out, 5)
	same := map[uint32]bool{}
	for _, name := range []string{"prefill", "decode"} {
		_, err := queue.Capture(ctx, name, func(_ context.Context, r *reprise.Recorder) error {
			mid, err := pool.NewBuffer(reprise.BufferConfig{Size: 16, Name: "intermediate"})
			if err != nil {
				return err
			}
			same[mid.Addr()] = true
			return errors.Join(x.SetBuffer(mid, to), r.Run(x), mid.Release())
		})
		check(err)
	}
	fmt.Println(len(same), "address")
	// Output:
	// 1 address
}

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

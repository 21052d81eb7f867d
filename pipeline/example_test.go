package pipeline_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/pipeline"
	"github.com/reprise-tt/reprise/sim"
)

// network is a model: a first program moves the input from DRAM to L1, a body adds 1 to every word
// three times, and a last program moves the result to where it is read.
type network struct {
	dev          *reprise.Device
	in, mid, out *reprise.Buffer // in DRAM, where they stay
	l1           *reprise.Buffer
	scratch      *reprise.Pool // that l1 is in
	first, last  *reprise.Executable
	body         []*reprise.Executable
}

const networkBytes = 16 * 64

// newNetwork records the body. The input in L1 shares a pool with an intermediate buffer, and must
// be allocated where it was after the capture.
func newNetwork(ctx context.Context, dev *reprise.Device) (*network, *reprise.Trace) {
	n := &network{dev: dev}
	var err error
	n.scratch, err = dev.NewPool(reprise.PoolConfig{Kind: allocator.L1, Size: 128 << 10, Name: "scratch"})
	check(err)
	n.in, n.mid, n.out = n.dram("in"), n.dram("mid"), n.dram("out")
	n.l1 = n.inL1("L1 input")
	at := n.l1.Addr()
	n.first = move(ctx, dev, "first", 1, n.in, n.l1)
	n.body = append(n.body, move(ctx, dev, "take", 2, n.l1, n.mid))
	for range 3 {
		n.body = append(n.body, add(ctx, dev, 3, n.mid, 1))
	}
	// After "take" nothing reads the input in L1, so its memory is free for something else.
	check(n.l1.Release())
	tmp := n.inL1("tmp")
	n.body = append(n.body, move(ctx, dev, "out", 2, n.mid, tmp), move(ctx, dev, "back", 2, tmp, n.mid))
	check(tmp.Release())
	n.last = move(ctx, dev, "last", 4, n.mid, n.out)
	trace, err := dev.Queue(0).Capture(ctx, "body", n.record)
	check(err)
	if n.l1 = n.inL1("L1 input"); n.l1.Addr() != at {
		check(errors.New("the L1 input has moved"))
	}
	return n, trace
}

func move(ctx context.Context, dev *reprise.Device, name string, x int, from, to *reprise.Buffer) *reprise.Executable {
	p, err := devtest.Mover(dev, name, chip.Core{X: x}, from, to)
	check(err)
	return load(ctx, dev, p)
}

func add(ctx context.Context, dev *reprise.Device, x int, b *reprise.Buffer, addend uint32) *reprise.Executable {
	p, err := devtest.Adder(dev, "add", chip.Core{X: x}, b, b, addend)
	check(err)
	return load(ctx, dev, p)
}

func load(ctx context.Context, dev *reprise.Device, p *reprise.Program) *reprise.Executable {
	x, err := dev.Load(ctx, p)
	check(err)
	return x
}

func (n *network) dram(name string) *reprise.Buffer {
	b, err := n.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: networkBytes, PageSize: 64, Name: name})
	check(err)
	return b
}

func (n *network) inL1(name string) *reprise.Buffer {
	b, err := n.scratch.NewBuffer(reprise.BufferConfig{Size: networkBytes, PageSize: 64, Name: name})
	check(err)
	return b
}

func (n *network) record(_ context.Context, r *reprise.Recorder) error {
	for _, x := range n.body {
		if err := r.Run(x); err != nil {
			return err
		}
	}
	return nil
}

func (n *network) input(i int) []byte { return count(100 * uint32(i)) }

// Queue 1 writes the inputs, queue 0 runs the model and reads the outputs. Two events protect the
// input: the next one is written as soon as the first program has read the one before. The body is
// a trace.
func Example_writesOnQueue1() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Wormhole(), reprise.WithQueues(2))
	check(err)
	defer dev.Close(ctx)
	n, trace := newNetwork(ctx, dev)
	ops, writes := dev.Queue(0), dev.Queue(1)
	opDone, written := dev.NewEvent("op done"), dev.NewEvent("written")
	check(ops.Record(ctx, opDone))
	output := make([]byte, networkBytes)
	for i := range 4 {
		check(writes.WaitEvent(ctx, opDone))
		check(writes.Write(ctx, n.in, 0, n.input(i)))
		check(writes.Record(ctx, written))

		check(ops.WaitEvent(ctx, written))
		check(ops.Run(ctx, n.first))
		check(ops.Record(ctx, opDone))
		check(trace.Replay(ctx))
		check(ops.Run(ctx, n.last))
		check(ops.Read(ctx, n.out, 0, output))
		fmt.Println(ends(n.input(i)), "->", ends(output))
	}
	// Output:
	// 0 ... 255 -> 3 ... 258
	// 100 ... 355 -> 103 ... 358
	// 200 ... 455 -> 203 ... 458
	// 300 ... 555 -> 303 ... 558
}

// Queue 1 also reads the outputs, and queue 0 only runs programs. The next input is written before
// the output is read, or queue 1 would wait for the model.
func Example_readsAndWritesOnQueue1() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole(), reprise.WithQueues(2))
	check(err)
	defer dev.Close(ctx)
	n, trace := newNetwork(ctx, dev)
	ops, transfers := dev.Queue(0), dev.Queue(1)
	firstDone, written := dev.NewEvent("first op done"), dev.NewEvent("written")
	lastDone, read := dev.NewEvent("last op done"), dev.NewEvent("read")
	check(ops.Record(ctx, firstDone))
	check(transfers.Record(ctx, read))
	write := func(i int) {
		check(transfers.WaitEvent(ctx, firstDone))
		check(transfers.Write(ctx, n.in, 0, n.input(i)))
		check(transfers.Record(ctx, written))
	}
	var outputs [][]byte
	var reads []*reprise.Pending
	write(0)
	for i := range 4 {
		check(ops.WaitEvent(ctx, written))
		check(ops.Run(ctx, n.first))
		check(ops.Record(ctx, firstDone))
		check(trace.Replay(ctx))
		check(ops.WaitEvent(ctx, read)) // of the output before
		check(ops.Run(ctx, n.last))
		check(ops.Record(ctx, lastDone))

		if i < 3 {
			write(i + 1)
		}
		check(transfers.WaitEvent(ctx, lastDone))
		outputs = append(outputs, make([]byte, networkBytes))
		r, err := transfers.StartRead(ctx, n.out, 0, outputs[i])
		check(err)
		reads = append(reads, r)
		check(transfers.Record(ctx, read)) // after the read, never before it
	}
	for i, r := range reads {
		check(r.Wait(ctx))
		fmt.Println(ends(n.input(i)), "->", ends(outputs[i]))
	}
	// Output:
	// 0 ... 255 -> 3 ... 258
	// 100 ... 355 -> 103 ... 358
	// 200 ... 455 -> 203 ... 458
	// 300 ... 555 -> 303 ... 558
}

// A Pipeline does all that by its configuration.
func ExamplePipeline() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole(), reprise.WithQueues(2))
	check(err)
	defer dev.Close(ctx)
	buffer := func(k allocator.Kind, name string) reprise.BufferConfig {
		return reprise.BufferConfig{Kind: k, Size: networkBytes, PageSize: 64, Name: name}
	}
	in, l1 := buffer(allocator.DRAM, "in"), buffer(allocator.L1, "L1 input")
	pipe, err := pipeline.New(dev, pipeline.Config{
		Name: "network", Trace: true, Queues: 2, TransferQueue: true,
		Input: &in, L1Input: &l1, Outputs: []reprise.BufferConfig{buffer(allocator.DRAM, "out")},
	}, func(ctx context.Context, b *pipeline.Buffers) (*pipeline.Stages, error) {
		mid, err := dev.NewBuffer(buffer(allocator.DRAM, "mid"))
		if err != nil {
			return nil, err
		}
		return &pipeline.Stages{
			First: []*reprise.Executable{move(ctx, dev, "first", 1, b.Input, b.L1Input)},
			Body: []*reprise.Executable{
				move(ctx, dev, "take", 2, b.L1Input, mid),
				add(ctx, dev, 3, mid, 3),
			},
			Last: []*reprise.Executable{move(ctx, dev, "last", 4, mid, b.Outputs[0])},
		}, nil
	})
	check(err)
	inputs := func(yield func([]byte) bool) {
		for i := 0; i < 4 && yield(count(100*uint32(i))); i++ {
		}
	}
	check(pipe.Compile(ctx, count(0)))
	for out, err := range pipe.Run(ctx, inputs) {
		check(err)
		fmt.Println(ends(out[0]))
	}
	check(pipe.Release(ctx))
	// Output:
	// 3 ... 258
	// 103 ... 358
	// 203 ... 458
	// 303 ... 558
}

func count(from uint32) []byte { return devtest.Words(networkBytes, from) }

func ends(b []byte) string {
	return fmt.Sprint(binary.LittleEndian.Uint32(b), " ... ", binary.LittleEndian.Uint32(b[len(b)-4:]))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

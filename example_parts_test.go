package reprise_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"path/filepath"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func blank(ctx context.Context, dev *reprise.Device, name string, on ...chip.Range) *reprise.Executable {
	if on == nil {
		on = []chip.Range{dev.Grid()}
	}
	image, err := kernels.Prebuilt(dev.Arch(), kernels.Blank)
	check(err)
	x, err := dev.Load(ctx, &reprise.Program{Name: name, Kernels: []reprise.Kernel{{
		Name: "nothing", Image: image, Processor: chip.BRISC, Cores: on,
	}}})
	check(err)
	return x
}

// A card that isn't there is an error that a program can tell from others.
func ExampleOpen() {
	_, err := reprise.Open(context.Background(), kmd.Path("/dev/tenstorrent/99"))
	switch {
	case errors.Is(err, reprise.ErrPermission):
		fmt.Println("there is a card, but not for us")
	case err != nil:
		fmt.Println("no card: use the emulator")
	}
	dev, err := reprise.Open(context.Background(), sim.Wormhole())
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close(context.Background())
	fmt.Println(dev.Arch(), dev.Grid(), dev.DRAMBanks(), "DRAM banks")
	// Output:
	// no card: use the emulator
	// wormhole (0,0)-(7,8) 12 DRAM banks
}

// Pages go round the banks; page p is in bank p mod banks.
func ExampleDevice_NewBuffer() {
	dev, err := reprise.Open(context.Background(), sim.Blackhole())
	check(err)
	defer dev.Close(context.Background())
	b, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 100 * 1000, PageSize: 1000, Name: "weights"})
	check(err)
	fmt.Printf("%q: %d B in pages of %d B, %d B apart\n", b.Name(), b.Size(), b.PageSize(), b.PageStride())
	fmt.Printf("each of %d banks gave %d B\n", dev.DRAMBanks(), dev.Memory(allocator.DRAM).Allocated)

	_, err = dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 1 << 30, PageSize: 1 << 10, Name: "too much"})
	var oom *allocator.OutOfMemoryError
	if errors.As(err, &oom) {
		fmt.Printf("%s for %q: each bank must hold %d B and has %d B\n", oom.Kind, oom.Owner, oom.Need, oom.Have)
	}
	// Output:
	// "weights": 100000 B in pages of 1000 B, 1024 B apart
	// each of 8 banks gave 13312 B
	// L1 for "too much": each bank must hold 8259584 B and has 1467584 B
}

// A Recorder only records. A call that can't be recorded is an error with the place of the call.
func ExampleQueue_Capture() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	queue := dev.Queue(0)
	first, second := blank(ctx, dev, "first"), blank(ctx, dev, "second")

	trace, err := queue.Capture(ctx, "both", func(_ context.Context, r *reprise.Recorder) error {
		if err := r.Run(first); err != nil {
			return err
		}
		return r.Run(second)
	})
	check(err)
	for _, s := range trace.Parts()[0].Steps {
		fmt.Println(s.Name)
	}

	// The trace holds what it needs, so the executables may go.
	check(first.Release(ctx))
	check(second.Release(ctx))
	check(trace.Replay(ctx))
	check(queue.Wait(ctx))

	_, err = queue.Capture(ctx, "late", func(_ context.Context, r *reprise.Recorder) error { return r.Run(first) })
	var ce *reprise.CaptureError
	if errors.As(err, &ce) {
		fmt.Printf("%s in %s: %v\n", ce.Op, filepath.Base(ce.File), ce.Err)
	}
	// Output:
	// first
	// second
	// run program "first" in example_parts_test.go: executable "first": it has been released already
}

// A trace lies at the top of every DRAM bank.
func ExampleTrace_Parts() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	defer dev.Close(ctx)
	x := blank(ctx, dev, "blank")
	trace, err := dev.Queue(0).Capture(ctx, "long", func(_ context.Context, r *reprise.Recorder) error {
		for range 20 {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
	check(err)
	for _, e := range trace.Parts()[0].Extents[:2] {
		fmt.Printf("bank %d: %#x to %#x\n", e.Bank, e.Start, e.End)
	}
	// Output:
	// bank 0: 0xfefffc00 to 0xff000000
	// bank 1: 0xfefffc00 to 0xff000000
}

// A trace can be read: one line for each command.
func ExampleTrace_Print() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	x := blank(ctx, dev, "blank")
	trace, err := dev.Queue(0).Capture(ctx, "short", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	check(err)
	var text strings.Builder
	check(trace.Print(&text))
	for line := range strings.Lines(text.String()) {
		fields := strings.Fields(line) // offset, size, who carries it out, what, and with which parameters
		fmt.Println(fields[2], fields[3])
	}
	// Output:
	// dispatch SEQUENCE
	// dispatch SET_WRITE_OFFSET
	// dispatch WAIT
	// dispatch WRITE_PACKED_LARGE
	// dispatch SEQUENCE
	// dispatch SET_WRITE_OFFSET
	// dispatch WAIT
	// dispatch WRITE_PACKED
	// dispatch FORWARD_SUBORDINATE
	// prefetch EXEC_BUF_END
}

// A wait that can't end says what every core that is busy does. After Recover the trace and its
// buffers have their places, and what buffers hold is written again.
func ExampleDevice_Recover() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole(), reprise.WithHangTimeout(200*time.Millisecond))
	check(err)
	defer dev.Close(ctx)
	d := ops.New(dev)
	host := func(v ...float32) *ops.Host {
		h, err := ops.NewHost([]int{1, 2}, ops.BFloat16, v)
		check(err)
		return h
	}
	weights := host(3, 0.5)
	x, err := d.ToDevice(ctx, host(0, 0), ops.Tile, ops.Interleaved(allocator.DRAM))
	check(err)
	w, err := d.ToDevice(ctx, weights, ops.Tile, ops.Interleaved(allocator.DRAM))
	check(err)
	model, err := d.CaptureModel(ctx, "model", func(ctx context.Context) ([]*ops.Tensor, error) {
		y, err := d.Multiply(ctx, x, w)
		return []*ops.Tensor{y}, err
	})
	check(err)
	infer := func(v ...float32) {
		check(d.CopyHostToDevice(ctx, host(v...), x))
		check(model.Replay(ctx))
		y, err := d.ToHost(ctx, model.Outputs()[0])
		check(err)
		fmt.Println(ops.Values[float32](y))
	}
	infer(2, 8)

	image, err := kernels.Prebuilt(dev.Arch(), kernels.Spin)
	check(err)
	forever, err := dev.Load(ctx, &reprise.Program{Name: "forever", Kernels: []reprise.Kernel{{
		Name: "wait for -1", Image: image, Processor: chip.TRISC0, Cores: []chip.Range{chip.Single(3, 4)},
		Args: func(chip.Core) []uint32 { return []uint32{0, 1<<32 - 1} },
	}}})
	check(err)
	check(dev.Queue(0).Run(ctx, forever))
	err = dev.Queue(0).Wait(ctx)
	var hang *dispatch.HangError
	if errors.As(err, &hang) { // a card that is gone is an ErrDeviceLost instead
		fmt.Println("last:", hang.Last, "- cause:", hang.Cause)
		for _, c := range hang.Cores {
			if c.Busy() && c.Kind == "worker" {
				fmt.Println("busy:", c.Core)
			}
		}
	}
	check(dev.Recover(ctx))
	check(d.CopyHostToDevice(ctx, weights, w))
	infer(4, 6)
	// Output:
	// [6 4]
	// last: forever - cause: no progress for 200ms
	// busy: (3,4)
	// [12 3]
}

// One queue writes, the other reads; two events keep each from overtaking the other.
func ExampleQueue_Wait() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole(), reprise.WithQueues(2))
	check(err)
	defer dev.Close(ctx)
	reader, writer := dev.Queue(0), dev.Queue(1)
	buf, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Name: "mailbox"})
	check(err)
	written, read := dev.NewEvent("written"), dev.NewEvent("read")
	got := make([]byte, 64)
	for i := range 3 {
		if i > 0 {
			check(writer.WaitEvent(ctx, read)) // the recording of the round before
		}
		check(writer.Write(ctx, buf, 0, fmt.Appendf(nil, "%-64s", fmt.Sprint("message ", i))))
		check(writer.Record(ctx, written))
		check(reader.WaitEvent(ctx, written))
		check(reader.Read(ctx, buf, 0, got))
		check(reader.Record(ctx, read))
		fmt.Println(string(got[:9]))
	}
	// This event was never recorded, so nothing would end a wait for it.
	if err := reader.WaitEvent(ctx, dev.NewEvent("forgotten")); err != nil {
		fmt.Println("refused")
	}
	// Output:
	// message 0
	// message 1
	// message 2
	// refused
}

// Data go to the device and come back without a copy by the host: the device reads and writes the
// host's memory itself.
func ExampleDevice_NewHostBuffer() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	defer dev.Close(ctx)
	const size = 64 << 10
	buf, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: size, PageSize: 2 << 10, Name: "weights"})
	check(err)
	// One half is for data to the device, one for results.
	host, err := dev.NewHostBuffer(reprise.HostBufferConfig{Size: 2 * size, Strict: true, Name: "staging"})
	check(err)
	copy(host.Bytes(), "straight from here")
	q := dev.Queue(0)
	written, err := q.StartWriteFrom(ctx, buf, 0, host, 0, size)
	check(err)
	check(q.ReadTo(ctx, buf, 0, host, size, size))
	fmt.Printf("%s\n", host.Bytes()[size:size+18])
	// The queue is in order: the write is done, so its part of the host memory may be filled anew.
	fmt.Println(written.Done())
	// A strict buffer refuses transfers that would need a copy: the NoC moves units of 16 bytes.
	fmt.Println(q.ReadTo(ctx, buf, 5, host, 0, 100))
	check(host.Release(ctx))
	// Output:
	// straight from here
	// true <nil>
	// reprise: read buffer "weights": read of 100 B at offset 5 to or from offset 0 of the host buffer without a copy: the place on the device and the place in host memory must be equal modulo 16, the NoC's unit: move one of them, or use a HostBuffer that isn't strict
}

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
	// wait for queue in example_parts_test.go: it can't be part of a trace
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

// Two programs on different cores run at once in each replay, and a third one when both are done.
func ExampleRecorder_Parallel() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	defer dev.Close(ctx)
	queue := dev.Queue(0)
	adder := func(n uint32, core chip.Core) (*reprise.Buffer, *reprise.Executable) {
		b, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Name: "words"})
		check(err)
		check(queue.Write(ctx, b, 0, make([]byte, b.Size())))
		p, err := devtest.Adder(dev, fmt.Sprint("add ", n), core, b, b, n)
		check(err)
		x, err := dev.Load(ctx, p)
		check(err)
		return b, x
	}
	a, one := adder(1, chip.Core{})
	b, ten := adder(10, chip.Core{X: 4, Y: 2})

	trace, err := queue.Capture(ctx, "branches", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(
			r.Parallel(
				func() error { return errors.Join(r.Run(one), r.Run(one)) },
				func() error { return r.Run(ten) },
			),
			r.Run(one),
		)
	})
	check(err)
	defer trace.Release(ctx)
	check(trace.Replay(ctx))
	fmt.Println(word(ctx, queue, a), word(ctx, queue, b))
	// Output: 3 10
}

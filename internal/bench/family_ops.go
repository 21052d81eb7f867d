package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops"
)

// Operation is what an operation on tensors takes of a device. Tensors are of BFloat16, in tiles, interleaved in DRAM.
type Operation struct {
	Name string `json:"op"`
	// Shape is, of a product, height, inner dimension and width; of conv2d, whose window is 3 by 3 with padding of 1, height, width,
	// channels in and channels out; of max_pool2d, whose window is 2 by 2, height, width and channels; of attention_decode, which has
	// one query for each head, heads, keys and width.
	Shape []int `json:"shape"`
	// Device is what is compared with, or empty for the device that is measured.
	Device string `json:"device,omitempty"`
	// Workers is how many workers the queue has.
	Workers int `json:"workers"`
	// ElapsedNs is the time of one run by the host's clock, from the submission to the end of the wait.
	ElapsedNs float64 `json:"elapsed_ns"`
	// Clocks is the time of one run by the clock of the queue's dispatch core, with its launch; nil for emulators, whose clocks
	// say nothing of silicon.
	Clocks *float64 `json:"clocks,omitempty"`
	// Instructions is what all processors of an emulated device retire; nil for other devices.
	Instructions *float64 `json:"instructions,omitempty"`
	// Products is how many products of two tiles the operation has, PerClock that by its clocks, and PeakShare the share of what the
	// matrix units of all workers could compute: one of 16 instructions in four phases each in 64 clocks. 0 for operations without
	// products, and nil without clocks.
	Products  float64  `json:"tile_products,omitempty"`
	PerClock  *float64 `json:"tile_products_per_clock,omitempty"`
	PeakShare *float64 `json:"share_of_peak,omitempty"`
	// Alone are the clocks of parts of a product by themselves: the same program without the others. LimitedBy is the part that
	// takes longest, or the launch if that is more than half of the product.
	Alone     *PartClocks `json:"clocks_alone,omitempty"`
	LimitedBy string      `json:"limited_by,omitempty"`
}

// PartClocks are the clocks of the parts of a product in blocks. Launch is in all of them.
type PartClocks struct {
	Launch  float64 `json:"launch"`  // starting and ending the program, in which no part does anything
	Readers float64 `json:"readers"` // reading tiles from DRAM, and sending them to rows and columns of cores
	Engines float64 `json:"engines"` // unpacking, multiplying and packing what is in L1
	Writers float64 `json:"writers"` // writing the result to DRAM, with what packs it
}

// limit returns the name of what takes longest in a product of so many clocks.
func (p *PartClocks) limit(clocks float64) string {
	if p.Launch > clocks/2 {
		return "launch"
	}
	switch max(p.Readers, p.Engines, p.Writers) {
	case p.Engines:
		return "engines"
	case p.Readers:
		return "readers"
	}
	return "writers"
}

const (
	// productClocks is what the matrix unit takes for a product of two tiles in four phases.
	productClocks = 64
	// longRun is the time after which larger operations aren't measured.
	longRun = 5 * time.Second
)

// opsBench measures operations on one device.
type opsBench struct {
	s             *session
	device        string
	dev           *reprise.Device
	ops           *ops.Device
	work          func() Work // nil if the device isn't emulated by this process
	clock         bool
	before, after *reprise.Event
}

// measureOps measures operations on tensors, on the device and on the one that it is compared with.
func measureOps(ctx context.Context, s *session) error {
	// The vendor's simulator takes minutes for what takes silicon a millisecond.
	patient := reprise.WithHangTimeout(10 * time.Minute)
	var err error
	if s.config.Emulated != nil {
		err = s.emulate(ctx, 1, func(chips []emulated) error {
			return s.measureOperations(ctx, &opsBench{s: s, dev: chips[0].Device, work: chips[0].Work})
		})
	} else {
		err = s.with(ctx, func() error { return s.measureOperations(ctx, &opsBench{s: s, dev: s.dev, clock: true}) }, patient)
	}
	a := s.config.Against
	if err != nil || a == nil {
		return err
	}
	err = s.open(ctx, a.Target, func() error {
		return s.measureOperations(ctx, &opsBench{s: s, device: a.Name, dev: s.dev, clock: !a.Emulated})
	}, []reprise.Option{patient})
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return nil
}

func (s *session) measureOperations(ctx context.Context, b *opsBench) (err error) {
	s.report.Arch = b.dev.Arch().String()
	b.before, b.after = b.dev.NewEvent("before", reprise.Timed()), b.dev.NewEvent("after", reprise.Timed())
	b.ops = ops.New(b.dev)
	defer func() { err = errors.Join(err, b.ops.Release(ctx)) }()
	long := false
	for _, n := range []int{128, 256, 512, 1024} {
		if long {
			s.leaveOut("ops", fmt.Sprintf(", a product of %d on %s", n, b.dev.Name()), fmt.Sprintf("a smaller one took more than %v", longRun))
			continue
		}
		if long, err = b.matmul(ctx, n); err != nil {
			return fmt.Errorf("matmul of %d: %w", n, err)
		}
	}
	for _, c := range []struct {
		Operation
		in [][]int // shapes of the operands
		do func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error)
	}{
		{Operation{Name: "add", Shape: []int{512, 512}}, [][]int{{512, 512}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.Add(ctx, in[0], in[0], opts...)
			}},
		{Operation{Name: "softmax", Shape: []int{512, 512}}, [][]int{{512, 512}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.Softmax(ctx, in[0], -1, opts...)
			}},
		{Operation{Name: "conv2d", Shape: []int{32, 32, 32, 64}, Products: 32 * 9 * 2}, [][]int{{1, 1, 32 * 32, 32}, {1, 1, 9 * 32, 64}, {1, 1, 1, 64}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.Conv2d(ctx, in[0], in[1], in[2], ops.Conv2dConfig{
					Batch: 1, Height: 32, Width: 32, In: 32, Out: 64, Kernel: [2]int{3, 3}, Padding: [2]int{1, 1},
				}, opts...)
			}},
		{Operation{Name: "max_pool2d", Shape: []int{32, 32, 32}}, [][]int{{1, 1, 32 * 32, 32}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.MaxPool2d(ctx, in[0], ops.Pool2dConfig{Batch: 1, Height: 32, Width: 32, Channels: 32, Kernel: [2]int{2, 2}}, opts...)
			}},
		{Operation{Name: "attention_decode", Shape: []int{8, 1024, 64}, Products: 8 * 32 * (2 + 2)}, [][]int{{1, 8, 1, 64}, {1, 8, 1024, 64}, {1, 8, 1024, 64}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.ScaledDotProductAttentionDecode(ctx, in[0], in[1], in[2], 1023, ops.Attention{}, opts...)
			}},
	} {
		if err := b.operation(ctx, &c.Operation, c.in, c.do); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

// random returns a tensor of random numbers on the device.
func (b *opsBench) random(ctx context.Context, shape []int, seed uint64) (*ops.Tensor, error) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = 4*rnd.Float32() - 2
	}
	h, err := ops.NewHost(shape, ops.BFloat16, v)
	if err != nil {
		return nil, err
	}
	return b.ops.ToDevice(ctx, h, ops.Tile, ops.Interleaved(allocator.DRAM))
}

// matmul measures a product of square matrices, and reports whether it took long.
func (b *opsBench) matmul(ctx context.Context, side int) (long bool, err error) {
	var t [3]*ops.Tensor
	for i := range t {
		if t[i], err = b.random(ctx, []int{side, side}, uint64(i)); err != nil {
			return false, err
		}
	}
	run := func(p ops.MatmulProgram) func() error {
		return func() error {
			_, err := b.ops.Matmul(ctx, t[0], t[1], ops.Into(t[2]), ops.WithMatmulProgram(p))
			return err
		}
	}
	tiles := float64(side) / 32
	o := &Operation{Name: "matmul", Shape: []int{side, side, side}, Products: tiles * tiles * tiles}
	if err := b.measure(ctx, o, run(ops.MatmulProgram{})); err != nil {
		return false, err
	}
	if o.Clocks != nil {
		o.Alone = &PartClocks{}
		for _, part := range []struct {
			skip   ops.MatmulParts
			clocks *float64
		}{
			{ops.MatmulReads | ops.MatmulProducts | ops.MatmulWrites, &o.Alone.Launch},
			{ops.MatmulProducts | ops.MatmulWrites, &o.Alone.Readers},
			{ops.MatmulReads | ops.MatmulWrites, &o.Alone.Engines},
			{ops.MatmulReads | ops.MatmulProducts, &o.Alone.Writers},
		} {
			var alone Operation
			if err := b.measure(ctx, &alone, run(ops.MatmulProgram{Form: ops.MatmulBlocked, Skip: part.skip})); err != nil {
				return false, err
			}
			*part.clocks = *alone.Clocks
		}
		o.LimitedBy = o.Alone.limit(*o.Clocks)
	}
	b.s.report.Operations = append(b.s.report.Operations, o)
	return o.ElapsedNs > float64(longRun), b.free(t[:]...)
}

// operation measures an operation on random operands.
func (b *opsBench) operation(
	ctx context.Context, o *Operation, shapes [][]int, do func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error),
) error {
	var in []*ops.Tensor
	for i, shape := range shapes {
		t, err := b.random(ctx, shape, uint64(i+1))
		if err != nil {
			return err
		}
		in = append(in, t)
	}
	out, err := do(in)
	if err != nil {
		return err
	}
	err = b.measure(ctx, o, func() error {
		_, err := do(in, ops.Into(out))
		return err
	})
	if err != nil {
		return err
	}
	b.s.report.Operations = append(b.s.report.Operations, o)
	return b.free(append(in, out)...)
}

func (b *opsBench) free(ts ...*ops.Tensor) error {
	var errs []error
	for _, t := range ts {
		errs = append(errs, b.ops.Deallocate(t))
	}
	return errors.Join(errs...)
}

// measure runs an operation once, so that its program is loaded, and then as often as there are rounds, but not longer than
// longRun. It keeps the least that a run took.
func (b *opsBench) measure(ctx context.Context, o *Operation, run func() error) error {
	if p := b.s.config.Progress; p != nil {
		p(fmt.Sprintf("ops/%s %v %s", o.Name, o.Shape, b.device))
	}
	o.Device, o.Workers = b.device, b.dev.Queue(0).Workers().Size()
	if err := errors.Join(run(), b.ops.Wait(ctx)); err != nil {
		return err
	}
	clocks, elapsed, instructions := math.Inf(1), math.Inf(1), math.Inf(1)
	begin := time.Now()
	for i := 0; i < b.s.config.Rounds && (i == 0 || time.Since(begin) < longRun); i++ {
		q := b.dev.Queue(0)
		var done Work
		if b.work != nil {
			done = b.work()
		}
		start := time.Now()
		if err := errors.Join(q.Record(ctx, b.before), run()); err != nil {
			return err
		}
		if err := errors.Join(q.Record(ctx, b.after), b.after.Wait(ctx)); err != nil {
			return err
		}
		elapsed = min(elapsed, float64(time.Since(start)))
		if b.work != nil {
			instructions = min(instructions, float64(b.work().Instructions-done.Instructions))
		}
		from, _ := b.before.DeviceTime()
		to, _ := b.after.DeviceTime()
		clocks = min(clocks, float64(to-from))
	}
	o.ElapsedNs = elapsed
	if b.work != nil {
		o.Instructions = &instructions
	}
	if b.clock {
		o.Clocks = &clocks
		if o.Products > 0 {
			per := o.Products / clocks
			share := per * productClocks / float64(o.Workers)
			o.PerClock, o.PeakShare = &per, &share
		}
	}
	return nil
}

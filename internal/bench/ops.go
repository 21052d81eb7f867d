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
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/ops"
)

const (
	// productClocks is the matrix unit's time for a product of two tiles in four phases.
	productClocks = 64
	// longRun bounds the runs of an operation; larger products are skipped beyond it.
	longRun = 5 * time.Second
)

// opsBench measures operations on one device.
type opsBench struct {
	s             *session
	device        string
	dev           *reprise.Device
	ops           *ops.Device
	work          func() Work // nil unless this process emulates the device
	clock         bool
	before, after *reprise.Event
}

// measureOps measures operations on tensors on the target and on Config.Against.
func measureOps(ctx context.Context, s *session) error {
	// The vendor's simulator takes minutes for a millisecond of silicon.
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
			s.leaveOut("ops", fmt.Sprintf(", a product of %d on %s", n, b.dev.Name()),
				fmt.Sprintf("a smaller one took more than %v", longRun))
			continue
		}
		if long, err = b.matmul(ctx, n); err != nil {
			return fmt.Errorf("matmul of %d: %w", n, err)
		}
	}
	for _, c := range []struct {
		report.Operation
		in [][]int // shapes of the operands
		do func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error)
	}{
		{report.Operation{Name: "add", Shape: []int{512, 512}}, [][]int{{512, 512}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.Add(ctx, in[0], in[0], opts...)
			}},
		{report.Operation{Name: "softmax", Shape: []int{512, 512}}, [][]int{{512, 512}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.Softmax(ctx, in[0], -1, opts...)
			}},
		{report.Operation{Name: "conv2d", Shape: []int{32, 32, 32, 64}, Products: 32 * 9 * 2}, [][]int{{1, 1, 32 * 32, 32}, {1, 1, 9 * 32, 64}, {1, 1, 1, 64}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.Conv2d(ctx, in[0], in[1], in[2], ops.Conv2dConfig{
					Batch: 1, Height: 32, Width: 32, In: 32, Out: 64, Kernel: [2]int{3, 3}, Padding: [2]int{1, 1},
				}, opts...)
			}},
		{report.Operation{Name: "max_pool2d", Shape: []int{32, 32, 32}}, [][]int{{1, 1, 32 * 32, 32}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.MaxPool2d(ctx, in[0], ops.Pool2dConfig{Batch: 1, Height: 32, Width: 32, Channels: 32, Kernel: [2]int{2, 2}}, opts...)
			}},
		{report.Operation{Name: "attention_decode", Shape: []int{8, 1024, 64}, Products: 8 * 32 * (2 + 2)}, [][]int{{1, 8, 1, 64}, {1, 8, 1024, 64}, {1, 8, 1024, 64}},
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

// matmul measures a product of square matrices, and reports whether it took longer than longRun.
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
	o := &report.Operation{Name: "matmul", Shape: []int{side, side, side}, Products: tiles * tiles * tiles}
	if err := b.measure(ctx, o, run(ops.MatmulProgram{})); err != nil {
		return false, err
	}
	if o.Clocks != nil {
		o.Alone = &report.PartClocks{}
		for _, part := range []struct {
			skip   ops.MatmulParts
			clocks *float64
		}{
			{ops.MatmulReads | ops.MatmulProducts | ops.MatmulWrites, &o.Alone.Launch},
			{ops.MatmulProducts | ops.MatmulWrites, &o.Alone.Readers},
			{ops.MatmulReads | ops.MatmulWrites, &o.Alone.Engines},
			{ops.MatmulReads | ops.MatmulProducts, &o.Alone.Writers},
		} {
			var alone report.Operation
			if err := b.measure(ctx, &alone, run(ops.MatmulProgram{Form: ops.MatmulBlocked, Skip: part.skip})); err != nil {
				return false, err
			}
			*part.clocks = *alone.Clocks
		}
		o.LimitedBy = o.Alone.Limit(*o.Clocks)
	}
	b.s.report.Operations = append(b.s.report.Operations, o)
	return o.ElapsedNs > float64(longRun), b.free(t[:]...)
}

func (b *opsBench) operation(
	ctx context.Context, o *report.Operation, shapes [][]int, do func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error),
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

// measure runs an operation once to load its program, then for each round or until longRun, and
// keeps the least of each quantity.
func (b *opsBench) measure(ctx context.Context, o *report.Operation, run func() error) error {
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

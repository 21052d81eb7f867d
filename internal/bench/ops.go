package bench

import (
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
	*session
	device string
	dev    *reprise.Device
	ops    *ops.Device
	work   func() Work // nil unless this process emulates the device
	clock  bool
	stamps *stamps
}

// measureOps measures operations on tensors on the target and on Config.Against.
func measureOps(s *session) error {
	var err error
	if s.config.Emulated != nil {
		err = s.emulate(s.config.Emulated, 1, func(chips []emulated) error {
			return (&opsBench{session: s, dev: chips[0].Device, work: chips[0].Work}).measureAll()
		})
	} else {
		err = s.with(func() error { return (&opsBench{session: s, dev: s.dev, clock: true}).measureAll() }, patient)
	}
	a := s.config.Against
	if err != nil || a == nil {
		return err
	}
	err = s.open(a.Target, func() error {
		return (&opsBench{session: s, device: a.Name, dev: s.dev, clock: !a.Emulated}).measureAll()
	}, patient)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return nil
}

// square is the shape of tensors of operations on elements.
var square = []int{512, 512}

func (b *opsBench) measureAll() (err error) {
	b.report.Arch = b.dev.Arch().String()
	b.stamps, b.ops = newStamps(b.ctx, b.dev), ops.New(b.dev)
	defer func() { err = errors.Join(err, b.ops.Release(b.ctx)) }()
	long := false
	for _, n := range []int{128, 256, 512, 1024} {
		if long {
			b.leaveOut("ops", fmt.Sprintf(", a product of %d on %s", n, b.dev.Name()), fmt.Sprintf("a smaller one took more than %v", longRun))
			continue
		}
		if long, err = b.matmul(n); err != nil {
			return fmt.Errorf("matmul of %d: %w", n, err)
		}
	}
	for _, c := range []struct {
		report.Operation
		in [][]int // shapes of the operands
		do tensorOp
	}{
		{report.Operation{Name: "add", Shape: square}, [][]int{square}, func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.ops.Add(b.ctx, in[0], in[0], opts...)
		}},
		{report.Operation{Name: "softmax", Shape: square}, [][]int{square}, func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.ops.Softmax(b.ctx, in[0], -1, opts...)
		}},
		{report.Operation{Name: "conv2d", Shape: []int{32, 32, 32, 64}, Products: 32 * 9 * 2}, [][]int{{1, 1, 32 * 32, 32}, {1, 1, 9 * 32, 64}, {1, 1, 1, 64}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.Conv2d(b.ctx, in[0], in[1], in[2], ops.Conv2dConfig{
					Batch: 1, Height: 32, Width: 32, In: 32, Out: 64, Kernel: [2]int{3, 3}, Padding: [2]int{1, 1},
				}, opts...)
			}},
		{report.Operation{Name: "max_pool2d", Shape: []int{32, 32, 32}}, [][]int{{1, 1, 32 * 32, 32}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.MaxPool2d(b.ctx, in[0], ops.Pool2dConfig{Batch: 1, Height: 32, Width: 32, Channels: 32, Kernel: [2]int{2, 2}}, opts...)
			}},
		{report.Operation{Name: "attention_decode", Shape: []int{8, 1024, 64}, Products: 8 * 32 * (2 + 2)}, [][]int{{1, 8, 1, 64}, {1, 8, 1024, 64}, {1, 8, 1024, 64}},
			func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
				return b.ops.ScaledDotProductAttentionDecode(b.ctx, in[0], in[1], in[2], 1023, ops.Attention{}, opts...)
			}},
	} {
		if err := b.operation(&c.Operation, c.in, c.do); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

type tensorOp func(in []*ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error)

// random makes tensors of random numbers, with seeds that count up.
func (b *opsBench) random(seed uint64, shapes ...[]int) ([]*ops.Tensor, error) {
	var out []*ops.Tensor
	for i, shape := range shapes {
		rnd := rand.New(rand.NewPCG(seed+uint64(i), 2))
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
		t, err := b.ops.ToDevice(b.ctx, h, ops.Tile, ops.Interleaved(allocator.DRAM))
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// matmul measures a product of square matrices, and reports whether it took longer than longRun.
func (b *opsBench) matmul(side int) (long bool, err error) {
	shape := []int{side, side}
	t, err := b.random(0, shape, shape, shape)
	if err != nil {
		return false, err
	}
	run := func(p ops.MatmulProgram) func() error {
		return func() error {
			_, err := b.ops.Matmul(b.ctx, t[0], t[1], ops.Into(t[2]), ops.WithMatmulProgram(p))
			return err
		}
	}
	tiles := float64(side) / 32
	o := &report.Operation{Name: "matmul", Shape: []int{side, side, side}, Products: tiles * tiles * tiles}
	if err := b.measure(o, run(ops.MatmulProgram{})); err != nil {
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
			if err := b.measure(&alone, run(ops.MatmulProgram{Form: ops.MatmulBlocked, Skip: part.skip})); err != nil {
				return false, err
			}
			*part.clocks = *alone.Clocks
		}
		o.LimitedBy = o.Alone.Limit(*o.Clocks)
	}
	b.report.Operations = append(b.report.Operations, o)
	return o.ElapsedNs > float64(longRun), b.free(t...)
}

func (b *opsBench) operation(o *report.Operation, shapes [][]int, do tensorOp) error {
	in, err := b.random(1, shapes...)
	if err != nil {
		return err
	}
	out, err := do(in)
	if err != nil {
		return err
	}
	if err := b.measure(o, func() error {
		_, err := do(in, ops.Into(out))
		return err
	}); err != nil {
		return err
	}
	b.report.Operations = append(b.report.Operations, o)
	return b.free(append(in, out)...)
}

func (b *opsBench) free(ts ...*ops.Tensor) (err error) {
	for _, t := range ts {
		err = errors.Join(err, b.ops.Deallocate(t))
	}
	return err
}

// measure runs an operation once to load its program, then for each round or until longRun, and
// keeps the least of each quantity.
func (b *opsBench) measure(o *report.Operation, run func() error) error {
	if p := b.config.Progress; p != nil {
		p(fmt.Sprintf("ops/%s %v %s", o.Name, o.Shape, b.device))
	}
	o.Device, o.Workers = b.device, b.dev.Queue(0).Workers().Size()
	if err := errors.Join(run(), b.ops.Wait(b.ctx)); err != nil {
		return err
	}
	work := b.work
	if work == nil {
		work = func() Work { return Work{} }
	}
	clocks, elapsed, instructions := math.Inf(1), math.Inf(1), math.Inf(1)
	begin := time.Now()
	for i := 0; i < b.config.Rounds && (i == 0 || time.Since(begin) < longRun); i++ {
		done, start := work(), time.Now()
		from, to, err := b.stamps.around(run)
		if err != nil {
			return err
		}
		elapsed = min(elapsed, float64(time.Since(start)))
		instructions = min(instructions, float64(work().Instructions-done.Instructions))
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
			o.PerClock, o.PeakShare = &per, new(per*productClocks/float64(o.Workers))
		}
	}
	return nil
}

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
	Name  string `json:"op"`
	Shape []int  `json:"shape"` // of a product: height, inner dimension and width
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
	const side = 512
	for _, op := range []struct {
		name string
		do   func(x, out *ops.Tensor) error
	}{
		{"add", func(x, out *ops.Tensor) error { _, err := b.ops.Add(ctx, x, x, ops.Into(out)); return err }},
		{"softmax", func(x, out *ops.Tensor) error { _, err := b.ops.Softmax(ctx, x, -1, ops.Into(out)); return err }},
	} {
		if err := b.elements(ctx, op.name, side, op.do); err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
	}
	return nil
}

// random returns a tensor of random numbers on the device.
func (b *opsBench) random(ctx context.Context, side int, seed uint64) (*ops.Tensor, error) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	v := make([]float32, side*side)
	for i := range v {
		v[i] = 4*rnd.Float32() - 2
	}
	h, err := ops.NewHost([]int{side, side}, ops.BFloat16, v)
	if err != nil {
		return nil, err
	}
	return b.ops.ToDevice(ctx, h, ops.Tile, ops.Interleaved(allocator.DRAM))
}

// matmul measures a product of square matrices, and reports whether it took long.
func (b *opsBench) matmul(ctx context.Context, side int) (long bool, err error) {
	var t [3]*ops.Tensor
	for i := range t {
		if t[i], err = b.random(ctx, side, uint64(i)); err != nil {
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
		per := o.Products / *o.Clocks
		share := per * productClocks / float64(o.Workers)
		o.PerClock, o.PeakShare, o.Alone = &per, &share, &PartClocks{}
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

// elements measures an operation on a square tensor.
func (b *opsBench) elements(ctx context.Context, name string, side int, do func(x, out *ops.Tensor) error) error {
	x, err := b.random(ctx, side, 1)
	if err != nil {
		return err
	}
	out, err := b.random(ctx, side, 2)
	if err != nil {
		return err
	}
	o := &Operation{Name: name, Shape: []int{side, side}}
	if err := b.measure(ctx, o, func() error { return do(x, out) }); err != nil {
		return err
	}
	b.s.report.Operations = append(b.s.report.Operations, o)
	return b.free(x, out)
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
	}
	return nil
}

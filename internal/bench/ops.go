package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

const (
	// productClocks is the matrix unit's time for a product of two tiles in four phases.
	productClocks = 64
	// longRun bounds the runs of an operation.
	longRun = 5 * time.Second
)

type opsBench struct {
	*session
	device string
	ops    *ops.Device
	stamps *stamps
}

func measureOps(s *session) error {
	if err := s.with(func() error { return (&opsBench{session: s}).measureAll() }, patient); err != nil {
		return err
	}
	return s.against(func(a *Against) error { return (&opsBench{session: s, device: a.Name}).measureAll() }, patient)
}

var square = []int{512, 512}

func (b *opsBench) measureAll() (err error) {
	b.stamps, b.ops = newStamps(b.ctx, b.dev), ops.New(b.dev)
	defer func() { err = errors.Join(err, b.ops.Release(b.ctx)) }()
	long := false
	for _, n := range []int{128, 256, 512, 1024} {
		if long {
			b.leaveOut("ops", fmt.Sprintf(", a product of %d on %s", n, b.dev.Name()),
				fmt.Sprintf("a smaller one took more than %v", longRun))
			continue
		}
		if long, err = b.matmul(n); err != nil {
			return fmt.Errorf("matmul of %d: %w", n, err)
		}
	}
	for _, c := range []struct {
		report.Operation
		in [][]int
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
				return b.ops.MaxPool2d(b.ctx, in[0],
					ops.Pool2dConfig{Batch: 1, Height: 32, Width: 32, Channels: 32, Kernel: [2]int{2, 2}}, opts...)
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

// random makes tensors; seeds count up.
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

// matmul measures a product, and reports whether it took longer than longRun.
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

func (b *opsBench) measure(o *report.Operation, run func() error) error {
	if p := b.config.Progress; p != nil {
		p(fmt.Sprintf("ops/%s %v %s", o.Name, o.Shape, b.device))
	}
	o.Device, o.Workers = b.device, b.dev.Queue(0).Workers().Size()
	if err := errors.Join(run(), b.ops.Wait(b.ctx)); err != nil {
		return err
	}
	executedBy := func() uint64 {
		if b.card == nil {
			return 0
		}
		return executed.of(b.card)
	}
	clocks, elapsed, instructions := math.Inf(1), math.Inf(1), math.Inf(1)
	begin := time.Now()
	for i := 0; i < b.config.Rounds && (i == 0 || time.Since(begin) < longRun); i++ {
		before, start := executedBy(), time.Now()
		from, to, err := b.stamps.around(run)
		if err != nil {
			return err
		}
		elapsed = min(elapsed, float64(time.Since(start)))
		instructions = min(instructions, float64(executedBy()-before))
		clocks = min(clocks, float64(to-from))
	}
	o.ElapsedNs = elapsed
	if b.card != nil { // whose clock means little
		o.Instructions = &instructions
	} else {
		o.Clocks = &clocks
		if o.Products > 0 {
			per := o.Products / clocks
			o.PerClock, o.PeakShare = &per, new(per*productClocks/float64(o.Workers))
		}
	}
	return nil
}

// operation numbers what the kernels of bench/kernels compute.
type operation uint32

const (
	opMatmul operation = iota
	opAdd
	opMul
	opExp
	opUnpack
	opPack
)

type tileOperation struct {
	name   string
	op     operation
	phases arith.Fidelity
	tiles  uint32 // difference between the two runs of a sample, which cancels the run's fixed cost
}

const fewTiles = 10

// tileOperations use bf16 tiles. Those that compute include unpacking and packing.
var tileOperations = [...]tileOperation{
	{"matmul_LoFi", opMatmul, arith.LoFi, 200},
	{"matmul_HiFi2", opMatmul, arith.HiFi2, 100},
	{"matmul_HiFi3", opMatmul, arith.HiFi3, 100},
	{"matmul_HiFi4", opMatmul, arith.HiFi4, 100},
	{"add", opAdd, arith.LoFi, 1000},
	{"mul_HiFi4", opMul, arith.HiFi4, 500},
	{"exp", opExp, arith.LoFi, 100},
	{"unpack", opUnpack, arith.LoFi, 2000},
	{"pack", opPack, arith.LoFi, 2000},
}

// measureTensix counts the processor time of children too, in which simulators may run.
func measureTensix(s *session) error {
	first := len(s.report.Figures)
	if err := s.with(func() error { return s.measureTiles() }); err != nil {
		return err
	}
	own := s.report.Figures[first:]
	return s.against(func(a *Against) error {
		if err := s.measureTiles(a.params()...); err != nil {
			return err
		}
		for _, f := range own {
			for _, o := range s.report.Figures[first+len(own):] {
				if o.Name == f.Name && o.Params[0] == f.Params[0] && o.P50 > 0 {
					f.Ratios = append(f.Ratios, report.Ratio{To: a.Name, Ns: o.P50, Value: f.P50 / o.P50})
				}
			}
		}
		return nil
	})
}

func (s *session) measureTiles(device ...report.Param) error {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, op := range tileOperations {
		if err := s.measureTile(op, device, rnd); err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
	}
	return nil
}

func (s *session) measureTile(op tileOperation, device []report.Param, rnd *rand.Rand) (err error) {
	w, err := s.loadTile(op, rnd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.release()) }()
	if err := w.check(); err != nil {
		return err
	}
	runs := []func() error{runToEnd(s.ctx, s.dev, w.few), runToEnd(s.ctx, s.dev, w.more)}
	params := append(report.Params("op", op.name), device...)
	return s.measureTimes("tensix", measure.Job{Name: "tile", Params: params, Unit: "tiles"}, measure.TreeTime,
		func(now func() time.Duration, _ time.Duration) (float64, error) {
			var took [2]time.Duration
			for i, run := range runs {
				start := now()
				if err := run(); err != nil {
					return 0, err
				}
				took[i] = now() - start
			}
			return max(0, float64(took[1]-took[0])) / float64(op.tiles), nil
		})
}

type tileWork struct {
	*session
	op        tileOperation
	data      [2][]byte
	buffers   [3]*reprise.Buffer
	few, more *reprise.Executable
}

func bf16Numbers(rnd *rand.Rand) []byte {
	b := make([]byte, arith.BF16.TileBytes())
	for i := range arith.TileData {
		binary.LittleEndian.PutUint16(b[2*i:], uint16(math.Float32bits(4*rnd.Float32()-2)>>16))
	}
	return b
}

func (s *session) loadTile(op tileOperation, rnd *rand.Rand) (*tileWork, error) {
	w := &tileWork{session: s, op: op}
	for i := range w.buffers {
		var err error
		size := arith.BF16.TileBytes()
		if w.buffers[i], err = s.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: size, PageSize: size,
			Name: "tile"}); err != nil {
			return nil, err
		}
		if i < len(w.data) {
			w.data[i] = bf16Numbers(rnd)
			if err := s.queue().Write(s.ctx, w.buffers[i], 0, w.data[i]); err != nil {
				return nil, err
			}
		}
	}
	for n, to := range map[uint32]**reprise.Executable{fewTiles: &w.few, fewTiles + op.tiles: &w.more} {
		p := &reprise.Program{Name: op.name, Buffers: w.buffers[:]}
		for i, name := range []string{"unpack", "math", "pack"} {
			image, err := ownKernel(s.dev.Arch(), name)
			if err != nil {
				return nil, err
			}
			p.Kernels = append(p.Kernels, reprise.Kernel{
				Name: name, Image: image, Processor: chip.TRISC0 + chip.Processor(i), Cores: []chip.Range{{}},
				Args: func(chip.Core) []uint32 {
					return []uint32{uint32(op.op), n, w.buffers[0].Addr(), w.buffers[1].Addr(), w.buffers[2].Addr(), uint32(op.phases)}
				},
			})
		}
		var err error
		if *to, err = s.dev.Load(s.ctx, p); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *tileWork) release() error {
	err := errors.Join(w.few.Release(w.ctx), w.more.Release(w.ctx))
	for _, b := range w.buffers {
		err = errors.Join(err, b.Release())
	}
	return err
}

func (w *tileWork) check() error {
	got := make([]byte, arith.BF16.TileBytes())
	if err := errors.Join(runToEnd(w.ctx, w.dev, w.few)(), w.queue().Read(w.ctx, w.buffers[2], 0, got)); err != nil {
		return err
	}
	arch := arith.Wormhole
	if w.dev.Arch() == chip.Blackhole {
		arch = arith.Blackhole
	}
	var a, b arith.SrcTile
	u := arith.Unpack{Arch: arch, In: arith.BF16, Out: arith.BF16}
	u.Tile(&a, w.data[0])
	u.Tile(&b, w.data[1])
	m := arith.Math{Arch: arch, A: arith.BF16, B: arith.BF16}
	var dst arith.DstTile
	switch w.op.op {
	case opMatmul:
		m.MatmulTile(&dst, &a, &b, w.op.phases)
	case opAdd:
		m.AddTile(&dst, &a, &b, false)
	case opMul:
		m.MulTile(&dst, &a, &b, w.op.phases)
	case opExp:
		return w.checkExp(got)
	default:
		return nil
	}
	want := make([]byte, len(got))
	(&arith.Pack{Mid: arith.BF16, Out: arith.BF16}).Tile(want, &dst)
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the result is %x, want %x", got, want)
	}
	return nil
}

// checkExp compares with the exponential to about half a unit of bf16.
func (w *tileWork) checkExp(got []byte) error {
	number := func(b []byte, i int) float64 {
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16))
	}
	for i := range arith.TileData {
		x, y := number(w.data[0], i), number(got, i)
		if want := math.Exp(x); math.Abs(y-want) > want/128 {
			return fmt.Errorf("exp(%v) is %v, want %v", x, y, want)
		}
	}
	return nil
}

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
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

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

// tileOperation is a figure of the family "tensix".
type tileOperation struct {
	name   string
	op     operation
	phases arith.Fidelity
	tiles  uint32 // difference between the two runs of a sample, which cancels the run's fixed cost
}

// fewTiles is the tile count of the shorter run.
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

// measureTensix measures tile operations of one worker's engines, by wall-clock time and by
// processor time of this process and its children, in which simulators may run.
func measureTensix(s *session) error {
	first := len(s.report.Figures)
	if err := s.with(func() error { return s.measureTiles() }); err != nil {
		return err
	}
	a := s.config.Against
	if a == nil {
		return nil
	}
	own := s.report.Figures[first:]
	if err := s.open(a.Target, func() error { return s.measureTiles(a.params()...) }); err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	others := s.report.Figures[first+len(own):]
	for _, f := range own {
		for _, o := range others {
			if o.Name == f.Name && o.Params[0] == f.Params[0] && o.P50 > 0 {
				f.Ratios = append(f.Ratios, report.Ratio{To: a.Name, Ns: o.P50, Value: f.P50 / o.P50})
			}
		}
	}
	return nil
}

// measureTiles measures all operations on the open device, which has a parameter unless the target.
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

// tileWork is an operation loaded for two numbers of tiles.
type tileWork struct {
	*session
	op        tileOperation
	data      [2][]byte
	buffers   [3]*reprise.Buffer // the operands and the result
	few, more *reprise.Executable
}

func bf16Numbers(rnd *rand.Rand) []byte {
	b := make([]byte, arith.BF16.TileBytes())
	for i := range arith.TileData {
		binary.LittleEndian.PutUint16(b[2*i:], uint16(math.Float32bits(4*rnd.Float32()-2)>>16))
	}
	return b
}

// loadTile writes operands to a worker's L1 and loads the kernels.
func (s *session) loadTile(op tileOperation, rnd *rand.Rand) (*tileWork, error) {
	w := &tileWork{session: s, op: op}
	for i := range w.buffers {
		var err error
		size := arith.BF16.TileBytes()
		if w.buffers[i], err = s.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: size, PageSize: size, Name: "tile"}); err != nil {
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

// check compares the operation's result with package arith.
func (w *tileWork) check() error {
	got := make([]byte, arith.BF16.TileBytes())
	if err := runToEnd(w.ctx, w.dev, w.few)(); err != nil {
		return err
	}
	if err := w.queue().Read(w.ctx, w.buffers[2], 0, got); err != nil {
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
	default: // nothing is computed
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

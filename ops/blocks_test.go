package ops_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

func TestMatmulInBlocks(t *testing.T) {
	effort.Long(t)
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b     [4]int
			from, to ops.DataType
			p        ops.MatmulProgram
		}{
			{[4]int{1, 1, 64, 64}, [4]int{1, 1, 64, 64}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{PerCoreM: 1, PerCoreN: 2}},
			{[4]int{1, 1, 160, 200}, [4]int{1, 1, 200, 100}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{}},
			// Three passes, of which the last has less, and parts of different sizes.
			{[4]int{1, 1, 160, 330}, [4]int{1, 1, 330, 300}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{PerCoreM: 3, PerCoreN: 5, InnerStep: 2,
				PassSteps: 2}},
			{[4]int{1, 1, 40, 330}, [4]int{1, 1, 330, 200}, ops.Float32, ops.Float32, ops.MatmulProgram{PerCoreM: 2, PerCoreN: 5, InnerStep: 3,
				PassSteps: 1}},
			// Several matrices: of one right one the left ones are one, of several a matrix comes
			// after another.
			{[4]int{2, 2, 40, 70}, [4]int{1, 1, 70, 70}, ops.BFloat16, ops.Float32, ops.MatmulProgram{}},
			{[4]int{2, 1, 70, 160}, [4]int{2, 3, 160, 100}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{PerCoreM: 2, PerCoreN: 4, InnerStep: 2,
				PassSteps: 2}},
			// Several blocks in turn, of which some are empty.
			{[4]int{1, 1, 700, 70}, [4]int{1, 1, 70, 330}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{PerCoreM: 1, PerCoreN: 1, InnerStep: 1,
				PassSteps: 2}},
		} {
			c.p.Form = ops.MatmulBlocked
			x, y := normal(c.a, c.from, uint64(2*i)), normal(c.b, c.from, uint64(2*i+1))
			tx, ty := b.put(x, ops.Tile, dram), b.put(y, ops.Tile, dram)
			got := b.get(b.ok(b.Matmul(b.ctx, tx, ty, ops.WithDataType(c.to), ops.WithMatmulProgram(c.p))))
			if want := b.engines().matmul(x, y, c.to); !slices.Equal(got, want.v) {
				b.Errorf("%v times %v, %+v: %s", c.a, c.b, c.p, first(want.v, got))
			}
		}
	})
}

func TestLinearInBlocks(t *testing.T) {
	effort.Long(t)
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b, bias [4]int
			dt         ops.DataType
			f          ops.Activation
		}{
			{[4]int{1, 1, 100, 140}, [4]int{1, 1, 140, 200}, [4]int{1, 1, 1, 200}, ops.BFloat16, ops.ReLU},
			{[4]int{1, 2, 70, 140}, [4]int{1, 1, 140, 130}, [4]int{1, 2, 1, 130}, ops.BFloat16, ops.GELU},
			{[4]int{1, 1, 70, 100}, [4]int{1, 1, 100, 130}, [4]int{1, 1, 1, 130}, ops.Float32, ops.SiLU},
		} {
			tx, ty := b.put(normal(c.a, c.dt, uint64(3*i)), ops.Tile, dram), b.put(normal(c.b, c.dt, uint64(3*i+1)), ops.Tile, dram)
			bias := b.put(normal(c.bias, c.dt, uint64(3*i+2)), ops.Tile, dram)
			want := b.get(b.ok(b.Linear(b.ctx, tx, ty, bias, ops.WithActivation(c.f),
				ops.WithMatmulProgram(ops.MatmulProgram{Form: ops.MatmulSimple}))))
			for _, p := range []ops.MatmulProgram{{Form: ops.MatmulBlocked}, {Form: ops.MatmulBlocked, PerCoreM: 3, PerCoreN: 3, InnerStep: 1,
				PassSteps: 2}} {
				out := b.ok(b.Linear(b.ctx, tx, ty, bias, ops.WithActivation(c.f), ops.WithMatmulProgram(p)))
				if got := b.get(out); !slices.Equal(got, want) {
					b.Errorf("%v times %v, %+v: %s", c.a, c.b, p, first(want, got))
				}
				other := normal(c.a, c.dt, 77)
				tr, err := b.Capture(b.ctx, "linear", func(ctx context.Context) error {
					return failure(b.Linear(ctx, tx, ty, bias, ops.WithActivation(c.f), ops.WithMatmulProgram(p), ops.Into(out)))
				})
				b.must(err)
				b.must(b.CopyHostToDevice(b.ctx, b.host(other), tx))
				b.must(tr.Replay(b.ctx))
				replayed := b.get(out)
				if again := b.get(b.ok(b.Linear(b.ctx, tx, ty, bias, ops.WithActivation(c.f),
					ops.WithMatmulProgram(ops.MatmulProgram{Form: ops.MatmulSimple})))); !slices.Equal(again, replayed) {
					b.Errorf("replayed: %s", first(again, replayed))
				}
				b.must(tr.Release(b.ctx))
				b.must(b.CopyHostToDevice(b.ctx, b.host(normal(c.a, c.dt, uint64(3*i))), tx))
			}
		}
	})
}

func TestNoRoomForBlocks(t *testing.T) {
	b := open(t, sim.Blackhole())
	x, y := b.zeros(dram, 640, 320), b.zeros(dram, 320, 640)
	free := b.dev.Memory(allocator.L1)
	big, err := b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 1024,
		Size: int(free.LargestHole-100<<10) / 1024 * 1024 * free.Banks, Name: "big"})
	b.must(err)
	out := b.ok(b.Matmul(b.ctx, x, y))
	tr, err := b.Capture(b.ctx, "product", func(ctx context.Context) error {
		return failure(b.Matmul(ctx, x, y, ops.Into(out)))
	})
	b.must(err)
	b.must(tr.Replay(b.ctx))
	if _, err := b.Matmul(b.ctx, x, y, ops.WithMatmulProgram(ops.MatmulProgram{Form: ops.MatmulBlocked})); !errors.Is(err,
		allocator.ErrOccupied) && !errors.Is(err, allocator.ErrOutOfMemory) {
		t.Error(err)
	}
	b.must(tr.Release(b.ctx))
	b.must(big.Release())
	for p, want := range map[ops.MatmulProgram]error{
		{PerCoreM: 100, PerCoreN: 100}:                         ops.ErrMemory,
		{Form: ops.MatmulBlocked, PassSteps: -1}:               ops.ErrShape,
		{Form: ops.MatmulBlocked, InnerStep: 10, PassSteps: 1}: nil,
	} {
		if _, err := b.Matmul(b.ctx, x, y, ops.WithMatmulProgram(p)); !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", p, err, want)
		}
	}
}

func first(want, got []float64) string {
	for i := range want {
		if want[i] != got[i] {
			return fmt.Sprintf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
	return cmp.Diff(len(want), len(got))
}

func TestBlocksOnSomeWorkers(t *testing.T) {
	for name, card := range cards {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			dev, err := reprise.Open(ctx, card(), reprise.WithQueues(2),
				reprise.WithQueueWorkers(0, chip.Range{End: chip.Core{X: 1, Y: 1}}),
				reprise.WithQueueWorkers(1, chip.Range{Start: chip.Core{X: 2, Y: 3}, End: chip.Core{X: 4, Y: 5}}))
			devtest.Must(t, err)
			b := &bench{TB: t, ctx: ctx, dev: dev, Device: ops.New(dev, ops.WithQueue(1))}
			x, y := normal([4]int{1, 1, 160, 70}, ops.BFloat16, 1), normal([4]int{1, 1, 70, 130}, ops.BFloat16, 2)
			got := b.get(b.ok(b.Matmul(ctx, b.put(x, ops.Tile, dram), b.put(y, ops.Tile, dram),
				ops.WithMatmulProgram(ops.MatmulProgram{Form: ops.MatmulBlocked}))))
			if want := b.engines().matmul(x, y, ops.BFloat16); !slices.Equal(got, want.v) {
				t.Error(first(want.v, got))
			}
			b.must(b.Device.Release(ctx))
			b.must(dev.Close(ctx))
		})
	}
}

func TestNarrowSums(t *testing.T) {
	onBackends(t, func(b *bench) {
		x, y := normal([4]int{1, 1, 160, 330}, ops.BFloat16, 1), normal([4]int{1, 1, 330, 300}, ops.BFloat16, 2)
		tx, ty := b.put(x, ops.Tile, dram), b.put(y, ops.Tile, dram)
		e := b.engines()
		m := e.math(ops.BFloat16)
		m.Wide = false
		tiles := map[[2]int][32][32]float64{}
		want := make4([4]int{1, 1, 160, 300}, ops.BFloat16, func(_, _, h, w int) float64 {
			at := [2]int{h / 32, w / 32}
			if _, ok := tiles[at]; !ok {
				var dst arith.DstTile
				for k := 0; k < 330; k += 32 {
					m.MatmulTile(&dst, e.unpack(x, x.dims, 0, 0, h/32*32, k), e.unpack(y, y.dims, 0, 0, k, w/32*32), arith.HiFi4)
				}
				p := arith.Pack{Mid: arith.BF16, Out: arith.BF16}
				l1 := make([]byte, p.Out.TileBytes())
				p.Tile(l1, &dst)
				var out [32][32]float64
				for i := range out {
					for k := range out[i] {
						out[i][k] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(l1[2*arith.FaceOrder(i, k):])) << 16))
					}
				}
				tiles[at] = out
			}
			return tiles[at][h%32][w%32]
		})
		for _, p := range []ops.MatmulProgram{{}, {PerCoreM: 3, PerCoreN: 5, InnerStep: 2, PassSteps: 2}, {PerCoreM: 1, PerCoreN: 10}} {
			p.Form, p.NarrowSums = ops.MatmulBlocked, true
			if got := b.get(b.ok(b.Matmul(b.ctx, tx, ty, ops.WithMatmulProgram(p)))); !slices.Equal(got, want.v) {
				b.Errorf("%+v: %s", p, first(want.v, got))
			}
		}
	})
}

func TestNarrowSumsErrors(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.put(normal([4]int{1, 1, 32, 32}, ops.BFloat16, 1), ops.Tile, dram)
	for _, opts := range [][]ops.OpOption{
		{ops.WithMatmulProgram(ops.MatmulProgram{NarrowSums: true})},
		{ops.WithMatmulProgram(ops.MatmulProgram{NarrowSums: true, Form: ops.MatmulBlocked}), ops.WithTransposeB()},
	} {
		if _, err := b.Matmul(b.ctx, x, x, opts...); !errors.Is(err, ops.ErrShape) {
			t.Error(err)
		}
	}
	p := ops.MatmulProgram{NarrowSums: true, Form: ops.MatmulBlocked}
	if _, err := b.Matmul(b.ctx, x, x, ops.WithMatmulProgram(p), ops.WithDataType(ops.Float32)); !errors.Is(err, ops.ErrDataType) {
		t.Error(err)
	}
}

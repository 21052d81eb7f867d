package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func normalised(x, gamma, beta *plain, eps float64, keepMean bool) *plain {
	n := float64(x.dims[3])
	return make4(x.dims, x.dtype, func(m, c, h, w int) float64 {
		mean, square := 0., 0.
		for k := range x.dims[3] {
			mean += x.at(m, c, h, k) / n
		}
		if keepMean {
			mean = 0
		}
		for k := range x.dims[3] {
			square += math.Pow(x.at(m, c, h, k)-mean, 2) / n
		}
		v := (x.at(m, c, h, w) - mean) / math.Sqrt(square+eps)
		if gamma != nil {
			v *= gamma.at(0, 0, 0, w)
		}
		if beta != nil {
			v += beta.at(0, 0, 0, w)
		}
		return v
	})
}

func TestNorms(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			dims        [4]int
			dt          ops.DataType
			gamma, beta bool
		}{
			{[4]int{1, 1, 32, 32}, ops.BFloat16, false, false},
			{[4]int{1, 2, 40, 70}, ops.BFloat16, true, true},
			{[4]int{1, 2, 40, 70}, ops.Float32, true, true},
			{[4]int{2, 1, 3, 129}, ops.Float32, true, false},
			{[4]int{1, 3, 33, 5}, ops.BFloat16, false, true},
			{[4]int{1, 1, 2, 1400}, ops.Float32, true, true},
		} {
			x := normal(c.dims, c.dt, uint64(i))
			for j := range x.v {
				x.v[j] = fit(c.dt, 0, float32(2*x.v[j]+3))
			}
			put := func(p *plain) *ops.Tensor { return b.put(p, ops.Tile, dram) }
			tx := put(x)
			weights := func(use bool, seed uint64) (*plain, *ops.Tensor) {
				if !use {
					return nil, nil
				}
				p := normal([4]int{1, 1, 1, c.dims[3]}, c.dt, seed)
				return p, put(p)
			}
			gamma, tg := weights(c.gamma, 100)
			beta, tb := weights(c.beta, 200)
			what := fmt.Sprintf("layer norm of %v %v", c.dt, c.dims)
			got := b.get(b.ok(b.LayerNorm(b.ctx, tx, tg, tb, 1e-5)))
			b.everywhere(what, got)
			b.near(what, c.dt, got, normalised(x, gamma, beta, 1e-5, false).v, 0x1p-18, 0x1p-17)
			what = fmt.Sprintf("RMS norm of %v %v", c.dt, c.dims)
			got = b.get(b.ok(b.RMSNorm(b.ctx, tx, tg, 1e-5)))
			b.everywhere(what, got)
			b.near(what, c.dt, got, normalised(x, gamma, nil, 1e-5, true).v, 0x1p-18, 0x1p-126)
		}
	})
}

func TestRowsRefused(t *testing.T) {
	b := open(t, sim.Blackhole())
	tiles, row, other := b.zeros(dram, 2, 64), b.zeros(dram, 1, 64), b.zeros(dram, 1, 32)
	rows := b.ok(b.ToLayout(b.ctx, tiles, ops.RowMajor))
	wide := b.ok(b.Empty(b.ctx, ops.Spec{Shape: []int{1, 64}, DType: ops.Float32, Layout: ops.Tile, Memory: dram}))
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	b.refused(before, map[string]refusal{
		"another dimension":     {failure(b.Softmax(b.ctx, tiles, 4)), ops.ErrShape},
		"rows":                  {failure(b.Softmax(b.ctx, rows, -1)), ops.ErrMemory},
		"a mask of rows":        {failure(b.ScaleMaskSoftmax(b.ctx, tiles, rows, 1)), ops.ErrMemory},
		"a narrow mask":         {failure(b.ScaleMaskSoftmax(b.ctx, tiles, other, 1)), ops.ErrShape},
		"a mask of fp32":        {failure(b.ScaleMaskSoftmax(b.ctx, tiles, wide, 1)), ops.ErrDataType},
		"a scale of 0":          {failure(b.ScaleMaskSoftmax(b.ctx, tiles, row, 0)), ops.ErrShape},
		"an infinite scale":     {failure(b.ScaleMaskSoftmax(b.ctx, tiles, row, float32(math.Inf(1)))), ops.ErrShape},
		"into rows":             {failure(b.Softmax(b.ctx, tiles, -1, ops.Into(rows))), ops.ErrMemory},
		"norm of rows":          {failure(b.LayerNorm(b.ctx, rows, nil, nil, 0)), ops.ErrMemory},
		"weights of two rows":   {failure(b.LayerNorm(b.ctx, tiles, row, tiles, 0)), ops.ErrShape},
		"narrow weights":        {failure(b.RMSNorm(b.ctx, tiles, other, 0)), ops.ErrShape},
		"weights of fp32":       {failure(b.RMSNorm(b.ctx, tiles, wide, 0)), ops.ErrDataType},
		"a negative eps":        {failure(b.RMSNorm(b.ctx, tiles, row, -1)), ops.ErrShape},
		"an eps of NaN":         {failure(b.RMSNorm(b.ctx, tiles, row, float32(math.NaN()))), ops.ErrShape},
		"a norm into its input": {failure(b.RMSNorm(b.ctx, tiles, row, 0, ops.Into(tiles))), ops.ErrMemory},
	})
}

package ops_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops"
)

func TestStrictWindows(t *testing.T) { onStrictCards(t, 6, strictWindows) }

func strictWindows(_ *testing.T, b *bench, r *rand.Rand) {
	from := func(least, most int) int { return least + r.IntN(most-least+1) }
	pair := func(least, most int) [2]int { return [2]int{from(least, most), from(least, most)} }
	dt := []ops.DataType{ops.BFloat16, ops.Float32}[from(0, 1)]
	layout := []ops.Layout{ops.RowMajor, ops.Tile}[from(0, 1)]
	memory := ops.Interleaved([]allocator.Kind{allocator.DRAM, allocator.L1}[from(0, 1)])
	cfg := ops.Conv2dConfig{
		Batch: from(1, 3), Height: from(5, 9), Width: from(5, 9), In: from(1, 40), Out: from(1, 70),
		Kernel: pair(1, 3), Stride: pair(1, 2), Padding: pair(0, 2), Dilation: pair(1, 2),
	}
	x := normal([4]int{1, 1, cfg.Batch * cfg.Height * cfg.Width, cfg.In}, dt, r.Uint64())
	w := normal([4]int{1, 1, cfg.Kernel[0] * cfg.Kernel[1] * cfg.In, cfg.Out}, dt, r.Uint64())
	bias := normal([4]int{1, 1, 1, cfg.Out}, dt, r.Uint64())
	images := b.put(x, layout, memory)
	sums := b.ok(b.Conv2d(b.ctx, images, b.put(w, ops.Tile, memory), b.put(bias, ops.Tile, memory), cfg))
	want := b.engines().linear(columns(x, cfg, false), w, bias, func(v uint32) uint32 { return v })
	equal(b, want.v, b.get(sums), "%+v of %v, %v", cfg, dt, layout)

	pool := ops.Pool2dConfig{Batch: cfg.Batch, Height: cfg.Height, Width: cfg.Width, Channels: cfg.In, Kernel: pair(1, 3), Stride: pair(1, 3),
		Dilation: pair(1, 2)}
	got := b.get(b.ok(b.MaxPool2d(b.ctx, images, pool)))
	cfg.Kernel, cfg.Stride, cfg.Padding, cfg.Dilation = pool.Kernel, pool.Stride, [2]int{}, pool.Dilation
	under := columns(x, cfg, false)
	var most []float64
	for row := range under.dims[2] {
		for c := range cfg.In {
			m := math.Inf(-1)
			for k := c; k < under.dims[3]; k += cfg.In {
				m = max(m, under.v[row*under.dims[3]+k])
			}
			most = append(most, m)
		}
	}
	equal(b, most, got, "%+v of %v, %v", pool, dt, layout)
}

package ops_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

// Windows overlap, skip rows, leave the images, and span tiles and images.
var convolutions = []struct {
	ops.Conv2dConfig
	groups int
	layout ops.Layout
	dt     ops.DataType
	relu   bool
	memory allocator.Kind
}{
	{ops.Conv2dConfig{Batch: 3, Height: 8, Width: 8, In: 1, Out: 16, Kernel: [2]int{3, 3}, Padding: [2]int{1, 1}}, 1, ops.Tile, ops.BFloat16,
		true, allocator.DRAM},
	{ops.Conv2dConfig{Batch: 2, Height: 5, Width: 7, In: 32, Out: 40, Kernel: [2]int{3, 2}, Padding: [2]int{1, 0}}, 1, ops.RowMajor,
		ops.BFloat16, false, allocator.DRAM},
	{ops.Conv2dConfig{Batch: 1, Height: 11, Width: 6, In: 3, Out: 8, Kernel: [2]int{5, 3}, Stride: [2]int{2, 3}, Padding: [2]int{2, 1}}, 1,
		ops.RowMajor, ops.BFloat16, false, allocator.L1},
	{ops.Conv2dConfig{Batch: 2, Height: 9, Width: 9, In: 40, Out: 6, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Dilation: [2]int{2, 3}}, 2,
		ops.Tile, ops.BFloat16, false, allocator.L1},
	{ops.Conv2dConfig{Batch: 1, Height: 6, Width: 6, In: 6, Out: 12, Kernel: [2]int{3, 3}}, 3, ops.Tile, ops.Float32, true, allocator.DRAM},
	{ops.Conv2dConfig{Batch: 5, Height: 4, Width: 4, In: 16, Out: 33, Kernel: [2]int{4, 4}}, 1, ops.Tile, ops.BFloat16, true, allocator.DRAM},
	{ops.Conv2dConfig{Batch: 1, Height: 3, Width: 3, In: 5, Out: 130, Kernel: [2]int{1, 1}}, 1, ops.RowMajor, ops.Float32, false,
		allocator.DRAM},
	{ops.Conv2dConfig{Batch: 2, Height: 5, Width: 6, In: 4, Out: 7, Kernel: [2]int{2, 3}, Stride: [2]int{2, 2}, Edges: [4]int{0, 1, 2, 1}}, 1,
		ops.Tile, ops.BFloat16, false, allocator.DRAM},
}

// edges returns the padding at the top, bottom, left and right.
func edges(c ops.Conv2dConfig) [4]int {
	if p := c.Padding; p != [2]int{} {
		return [4]int{p[0], p[0], p[1], p[1]}
	}
	return c.Edges
}

func under(x *plain, c ops.Conv2dConfig, image, top, left int) (out []float64) {
	for ky := range c.Kernel[0] {
		for kx := range c.Kernel[1] {
			i, k := top+ky*max(c.Dilation[0], 1), left+kx*max(c.Dilation[1], 1)
			for ch := range c.In {
				v := 0.
				if i >= 0 && i < c.Height && k >= 0 && k < c.Width {
					v = x.at(0, 0, (image*c.Height+i)*c.Width+k, ch)
				}
				out = append(out, v)
			}
		}
	}
	return out
}

func columns(x *plain, c ops.Conv2dConfig, ceil bool) *plain {
	edge := edges(c)
	side := func(n, i int) (positions int) {
		last := n + edge[2*i] + edge[2*i+1] - (c.Kernel[i]-1)*max(c.Dilation[i], 1) - 1
		for at := 0; at <= last || ceil && at < n+edge[2*i] && at-last < max(c.Stride[i], 1); at += max(c.Stride[i], 1) {
			positions++
		}
		return positions
	}
	high, wide := side(c.Height, 0), side(c.Width, 1)
	p := &plain{dims: [4]int{1, 1, c.Batch * high * wide, c.Kernel[0] * c.Kernel[1] * c.In}, dtype: x.dtype}
	for at := range c.Batch * high * wide {
		y, x0 := at/wide%high*max(c.Stride[0], 1)-edge[0], at%wide*max(c.Stride[1], 1)-edge[2]
		p.v = append(p.v, under(x, c, at/(high*wide), y, x0)...)
	}
	return p
}

// The bounds are 2^-11 of the sum of absolute values of products, or 2^-9 of Float32, and 2^-8 of a
// result that is rounded to BFloat16.
func TestConv2d(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range convolutions {
			what := fmt.Sprintf("convolution %d", i)
			x := normal([4]int{1, 1, c.Batch * c.Height * c.Width, c.In}, c.dt, uint64(3*i))
			w := normal([4]int{c.Out, c.In / c.groups, c.Kernel[0], c.Kernel[1]}, c.dt, uint64(3*i+1))
			bias := normal([4]int{1, 1, 1, c.Out}, c.dt, uint64(3*i+2))
			values := make([]float32, len(w.v))
			for k, v := range w.v {
				values[k] = float32(v)
			}
			h := value(ops.NewHost(w.dims[:], c.dt, values))(b)
			h = value(ops.Conv2dWeights(h, c.groups))(b)
			memory := ops.Interleaved(c.memory)
			weights := b.ok(b.ToDevice(b.ctx, h, ops.Tile, memory))
			matrix := &plain{dims: weights4(weights), dtype: c.dt, v: b.get(weights)}
			var opts []ops.OpOption
			f := func(v uint32) uint32 { return v }
			if c.relu {
				opts = append(opts, ops.WithActivation(ops.ReLU))
				f = func(v uint32) uint32 {
					if v>>31 != 0 {
						return 0
					}
					return v
				}
			}
			got := b.get(b.ok(b.Conv2d(b.ctx, b.put(x, c.layout, memory), weights, b.put(bias, ops.Tile, memory), c.Conv2dConfig, opts...)))
			left := columns(x, c.Conv2dConfig, false)
			equal(b, b.engines().linear(left, matrix, bias, f).v, got, what)
			b.everywhere(what, got)

			// The exact one, from the weights as they were given.
			per, each := c.In/c.groups, c.Out/c.groups
			for at := range got {
				row, o := at/c.Out, at%c.Out
				sum, size := bias.v[o], math.Abs(bias.v[o])
				for k := range c.Kernel[0] * c.Kernel[1] {
					for ch := range per {
						p := left.v[row*left.dims[3]+k*c.In+o/each*per+ch] * w.v[(o*per+ch)*c.Kernel[0]*c.Kernel[1]+k]
						sum, size = sum+p, size+math.Abs(p)
					}
				}
				if c.relu {
					sum = max(sum, 0)
				}
				tolerance := size/(1<<11) + math.Abs(sum)/(1<<8)
				if c.dt == ops.Float32 {
					tolerance = size / (1 << 9)
				}
				if !(math.Abs(got[at]-sum) <= tolerance) {
					b.Errorf("%s: element %d is %v, want %v", what, at, got[at], sum)
					break
				}
			}
		}
	})
}

func weights4(t *ops.Tensor) [4]int { return [4]int(t.Shape()) }

func TestMaxPool2d(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			ops.Pool2dConfig
			layout ops.Layout
			dt     ops.DataType
			memory allocator.Kind
		}{
			{ops.Pool2dConfig{Batch: 3, Height: 8, Width: 8, Channels: 16, Kernel: [2]int{2, 2}}, ops.Tile, ops.BFloat16, allocator.DRAM},
			{ops.Pool2dConfig{Batch: 2, Height: 7, Width: 5, Channels: 40, Kernel: [2]int{3, 3}, Stride: [2]int{2, 1}, Padding: [2]int{1, 1}},
				ops.RowMajor, ops.BFloat16, allocator.L1},
			{ops.Pool2dConfig{Batch: 1, Height: 9, Width: 6, Channels: 3, Kernel: [2]int{2, 3}, Stride: [2]int{1, 1}, Dilation: [2]int{3, 2}},
				ops.Tile, ops.Float32, allocator.DRAM},
			{ops.Pool2dConfig{Batch: 1, Height: 4, Width: 4, Channels: 70, Kernel: [2]int{1, 4}, Padding: [2]int{0, 2}}, ops.RowMajor, ops.Float32,
				allocator.L1},
			{ops.Pool2dConfig{Batch: 2, Height: 6, Width: 5, Channels: 5, Kernel: [2]int{3, 2}, Stride: [2]int{2, 2}, Ceil: true}, ops.Tile,
				ops.BFloat16, allocator.DRAM},
			// In a row the last window would begin after the images.
			{ops.Pool2dConfig{Batch: 2, Height: 5, Width: 4, Channels: 3, Kernel: [2]int{2, 2}, Stride: [2]int{2, 3}, Edges: [4]int{0, 1, 0, 1},
				Ceil: true}, ops.RowMajor, ops.BFloat16, allocator.DRAM},
		} {
			what := fmt.Sprintf("pool %d", i)
			x := normal([4]int{1, 1, c.Batch * c.Height * c.Width, c.Channels}, c.dt, uint64(i))
			for k := range x.v {
				x.v[k] = fit(c.dt, 0, float32(x.v[k]-2))
			}
			got := b.get(b.ok(b.MaxPool2d(b.ctx, b.put(x, c.layout, ops.Interleaved(c.memory)), c.Pool2dConfig)))
			stride := c.Stride
			if stride == [2]int{} {
				stride = c.Kernel
			}
			// Padding is smaller than any element: of what is under the window only the images
			// count.
			present := make4(x.dims, x.dtype, func(_, _, _, _ int) float64 { return 1 })
			cfg := ops.Conv2dConfig{Batch: c.Batch, Height: c.Height, Width: c.Width, In: c.Channels, Kernel: c.Kernel, Stride: stride,
				Padding: c.Padding, Edges: c.Edges, Dilation: c.Dilation}
			under, inside := columns(x, cfg, c.Ceil), columns(present, cfg, c.Ceil)
			var want []float64
			for row := range under.dims[2] {
				for ch := range c.Channels {
					most := math.Inf(-1)
					for k := ch; k < under.dims[3]; k += c.Channels {
						if inside.v[row*under.dims[3]+k] != 0 {
							most = max(most, under.v[row*under.dims[3]+k])
						}
					}
					want = append(want, most)
				}
			}
			equal(b, want, got, what)
			b.everywhere(what, got)
		}
	})
}

func TestWindowsRefuse(t *testing.T) {
	b := open(t, sim.Blackhole())
	images, weights, bias := b.zeros(dram, 1, 1, 2*6*6, 4), b.zeros(dram, 1, 1, 3*3*4, 5), b.zeros(dram, 1, 1, 1, 5)
	rows := b.ok(b.ToLayout(b.ctx, weights, ops.RowMajor))
	apart := b.zeros(dram, 2, 1, 36, 4)
	good := ops.Conv2dConfig{Batch: 2, Height: 6, Width: 6, In: 4, Out: 5, Kernel: [2]int{3, 3}}
	pool := ops.Pool2dConfig{Batch: 2, Height: 6, Width: 6, Channels: 4, Kernel: [2]int{2, 2}}
	b.ok(b.Conv2d(b.ctx, images, weights, bias, good))
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	conv := func(images, weights, bias *ops.Tensor, change func(*ops.Conv2dConfig), opts ...ops.OpOption) error {
		c := good
		change(&c)
		_, err := b.Conv2d(b.ctx, images, weights, bias, c, opts...)
		return err
	}
	pooled := func(change func(*ops.Pool2dConfig)) error {
		c := pool
		change(&c)
		_, err := b.MaxPool2d(b.ctx, images, c)
		return err
	}
	same := func(*ops.Conv2dConfig) {}
	h := value(ops.NewHost([]int{6, 2, 3, 3}, ops.BFloat16, make([]float32, 6*2*9)))(b)
	b.refused(before, map[string]refusal{
		"images of another size":  {conv(images, weights, bias, func(c *ops.Conv2dConfig) { c.Height = 7 }), ops.ErrShape},
		"images in matrices":      {conv(apart, weights, bias, same), ops.ErrShape},
		"another number of sums":  {conv(images, weights, bias, func(c *ops.Conv2dConfig) { c.Out = 6 }), ops.ErrShape},
		"another window":          {conv(images, weights, bias, func(c *ops.Conv2dConfig) { c.Kernel[0] = 2 }), ops.ErrShape},
		"a window too large":      {conv(images, weights, bias, func(c *ops.Conv2dConfig) { c.Kernel[0] = 7 }), ops.ErrShape},
		"no window":               {conv(images, weights, bias, func(c *ops.Conv2dConfig) { c.Kernel[0] = 0 }), ops.ErrShape},
		"negative padding":        {conv(images, weights, bias, func(c *ops.Conv2dConfig) { c.Padding[1] = -1 }), ops.ErrShape},
		"numbers too large":       {conv(images, weights, bias, func(c *ops.Conv2dConfig) { c.Stride = [2]int{1 << 40, 1} }), ops.ErrShape},
		"weights in rows":         {conv(images, rows, bias, same), ops.ErrMemory},
		"a bias of other columns": {conv(images, weights, weights, same), ops.ErrShape},
		"a result of integers":    {conv(images, weights, bias, same, ops.WithDataType(ops.Int32)), ops.ErrDataType},
		"padding of a pool":       {pooled(func(c *ops.Pool2dConfig) { c.Padding[0] = 2 }), ops.ErrShape},
		"other channels":          {pooled(func(c *ops.Pool2dConfig) { c.Channels = 3 }), ops.ErrShape},
		"groups":                  {func() error { _, err := ops.Conv2dWeights(h, 4); return err }(), ops.ErrShape},
	})
}

func TestWindowsInTraceAndGraph(t *testing.T) {
	b := open(t, sim.Blackhole(few[chip.Blackhole], sim.Strict(3)))
	x := normal([4]int{1, 1, 2 * 36, 4}, ops.BFloat16, 1)
	images, weights := b.put(x, ops.Tile, dram), b.put(normal([4]int{1, 1, 36, 5}, ops.BFloat16, 2), ops.Tile, dram)
	cfg := ops.Conv2dConfig{Batch: 2, Height: 6, Width: 6, In: 4, Out: 5, Kernel: [2]int{3, 3}, Padding: [2]int{1, 1}}
	pool := ops.Pool2dConfig{Batch: 2, Height: 6, Width: 6, Channels: 5, Kernel: [2]int{2, 2}}
	c := b.BeginCapture(graph.Config{})
	sums := b.ok(b.Conv2d(b.ctx, images, weights, nil, cfg))
	most := b.ok(b.MaxPool2d(b.ctx, sums, pool))
	report := b.report(c)
	for _, name := range []string{"ttnn::conv2d", "Conv2dDeviceOperation", "ttnn::max_pool2d", "Pool2D"} {
		if names := graph.CallTrace(report.Graph); !slices.Contains(names, name) {
			t.Errorf("%s is not among %v", name, names)
		}
	}
	tr := b.capture("windows", func(ctx context.Context) error {
		if _, err := b.Conv2d(ctx, images, weights, nil, cfg, ops.Into(sums)); err != nil {
			return err
		}
		_, err := b.MaxPool2d(ctx, sums, pool, ops.Into(most))
		return err
	})
	next := normal(x.dims, ops.BFloat16, 3)
	moved := b.put(next, ops.Tile, dram)
	want := b.get(b.ok(b.MaxPool2d(b.ctx, b.ok(b.Conv2d(b.ctx, moved, weights, nil, cfg)), pool)))
	h := b.toHost(moved)
	b.must(b.CopyHostToDevice(b.ctx, h, images))
	b.must(tr.Replay(b.ctx))
	equal(t, want, b.get(most), "replayed")
	b.must(tr.Release(b.ctx))
}

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

package ops_test

import (
	"cmp"
	"context"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

// With -v the test prints the clocks of replays, which docs/ttnn.md has for ttsim.
func TestOptimizedModels(t *testing.T) {
	for backend, card := range map[string]func(testing.TB) kmd.Target{
		"wormhole":        func(testing.TB) kmd.Target { return sim.Wormhole() },
		"blackhole":       func(testing.TB) kmd.Target { return sim.Blackhole() },
		"ttsim wormhole":  func(t testing.TB) kmd.Target { return ttsimtest.Card(t, ttsimtest.Wormhole) },
		"ttsim blackhole": func(t testing.TB) kmd.Target { return ttsimtest.Card(t, ttsimtest.Blackhole) },
	} {
		t.Run(backend, func(t *testing.T) { optimizedModels(open(t, card(t))) })
	}
}

func optimizedModels(b *bench) {
	dram, shards := ops.Interleaved(allocator.DRAM), ops.Sharded(allocator.HeightSharded, 32, 64, chip.Grid(2, 1))
	tensor := func(seed uint64, size int, m ops.MemoryConfig) *ops.Tensor {
		return b.put(normal([4]int{1, 1, size, size}, ops.BFloat16, seed), ops.Tile, m)
	}
	x, w, v, big := tensor(1, 64, dram), tensor(2, 64, dram), tensor(3, 64, dram), tensor(4, 256, dram)
	sx, sw := tensor(5, 64, shards), tensor(6, 64, shards)
	relu := func(ctx context.Context, t *ops.Tensor) *ops.Tensor { return b.ok(b.Relu(ctx, t)) }
	for name, model := range map[string]func(context.Context) *ops.Tensor{
		"chain": func(ctx context.Context) *ops.Tensor {
			y := x
			for range 4 {
				y = relu(ctx, b.ok(b.Multiply(ctx, b.ok(b.Add(ctx, y, w)), v)))
			}
			return y
		},
		"64 tiles": func(ctx context.Context) *ops.Tensor {
			y := big
			for range 4 {
				y = relu(ctx, b.ok(b.Add(ctx, y, big)))
			}
			return y
		},
		"sharded": func(ctx context.Context) *ops.Tensor {
			y := sx
			for range 4 {
				y = relu(ctx, b.ok(b.Add(ctx, y, sw)))
			}
			return y
		},
		"attention": func(ctx context.Context) *ops.Tensor {
			s := b.ok(b.Softmax(ctx, b.ok(b.Matmul(ctx, x, b.ok(b.Transpose(ctx, x, 2, 3)))), -1))
			return b.ok(b.Add(ctx, b.ok(b.Matmul(ctx, s, x)), x))
		},
		"perceptron": func(ctx context.Context) *ops.Tensor {
			y := x
			for range 2 {
				y = b.ok(b.Add(ctx, b.ok(b.Matmul(ctx, b.ok(b.Gelu(ctx, b.ok(b.Matmul(ctx, y, w)))), v)), y))
			}
			return y
		},
	} {
		m, err := b.CaptureModel(b.ctx, name, func(ctx context.Context) ([]*ops.Tensor, error) { return []*ops.Tensor{model(ctx)}, nil })
		b.must(err)
		short := expect.Value(m.Optimize(b.ctx))(b)
		y := m.Outputs()[0]
		was, want := b.clocks(m.Trace), b.toHost(y).Data
		other := b.toHost(y)
		clear(other.Data)
		b.must(b.CopyHostToDevice(b.ctx, other, y))
		is := b.clocks(short)
		expect.NoDiff(b, b.toHost(y).Data, want, "%s", name)
		before, after := bytesOf(m.Trace), bytesOf(short)
		if most := map[string]int{"chain": before / 2}[name]; after > cmp.Or(most, before) { // its cores share arguments
			b.Errorf("%s: %d B of commands became %d B", name, before, after)
		}
		b.Logf("%s: %d B of commands became %d B, %d clocks %d", name, before, after, was, is)
		b.must(short.Release(b.ctx))
		b.must(m.Release(b.ctx))
	}
}

func bytesOf(t *reprise.Trace) int {
	last := t.Parts()[0].Steps
	return last[len(last)-1].Offset + last[len(last)-1].Size
}

// clocks returns the device's clocks of a replay.
func (b *bench) clocks(t *reprise.Trace) uint64 {
	begin, end, q := b.dev.NewEvent("begin", reprise.Timed()), b.dev.NewEvent("end", reprise.Timed()), b.dev.Queue(0)
	for range 2 { // the second is warm
		b.must(q.Record(b.ctx, begin))
		b.must(t.Replay(b.ctx))
		b.must(q.Record(b.ctx, end))
		b.must(q.Wait(b.ctx))
	}
	from, _ := begin.DeviceTime()
	to, _ := end.DeviceTime()
	return to - from
}

package ops_test

import (
	"context"
	"testing"

	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

func TestRowsAndElementsInTracesAndGraphs(t *testing.T) {
	effort.Long(t)
	b := open(t, sim.Blackhole(sim.Strict(6)))
	dims := [4]int{2, 1, 40, 70}
	x := b.put(normal(dims, ops.BFloat16, 1), ops.Tile, dram)
	mask := b.put(normal([4]int{1, 1, 1, 70}, ops.BFloat16, 2), ops.Tile, dram)
	spec := x.Spec()
	steps := []struct {
		name, class string
		run         func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error)
	}{
		{"ttnn::layer_norm", "LayerNormDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.LayerNorm(ctx, in, mask, nil, 1e-5, opts...)
		}},
		{"ttnn::scale_mask_softmax", "SoftmaxDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor,
			error) {
			return b.ScaleMaskSoftmax(ctx, in, mask, 2, opts...)
		}},
		{"ttnn::divide", "BinaryNgDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Divide(ctx, in, mask, opts...)
		}},
		{"ttnn::where", "TernaryDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Where(ctx, mask, in, mask, opts...)
		}},
		{"ttnn::rms_norm", "LayerNormDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.RMSNorm(ctx, in, mask, 0, opts...)
		}},
		{"ttnn::quantize", "BinaryNgDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Quantize(ctx, in, 0.01, 1, opts...)
		}},
		{"ttnn::typecast", "TypecastDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Typecast(ctx, in, ops.BFloat16, opts...)
		}},
		{"ttnn::mean", "ReduceDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Mean(ctx, in, 0, opts...)
		}},
	}
	// chain runs the steps, into tensors if there are some, and returns the results.
	chain := func(ctx context.Context, in *ops.Tensor, into ...*ops.Tensor) []*ops.Tensor {
		var out []*ops.Tensor
		for i, s := range steps {
			var opts []ops.OpOption
			if into != nil {
				opts = append(opts, ops.Into(into[i]))
			}
			in = b.ok(s.run(ctx, in, opts...))
			out = append(out, in)
		}
		return out
	}
	for name, mode := range modes {
		c := b.BeginCapture(graph.Config{Mode: mode})
		in := b.ok(b.Empty(b.ctx, spec))
		if mode == graph.Normal {
			in = x
		}
		chain(b.ctx, in)
		b.ok(b.Rand(b.ctx, spec, 0, 1, 3))
		report := b.report(c)
		have := map[string]bool{}
		for _, n := range only(report.Graph, graph.FunctionStart) {
			have[n.Params["name"]] = true
		}
		for _, s := range steps {
			if !have[s.name] || !have[s.class] {
				t.Errorf("%s: %s or %s isn't in the graph", name, s.name, s.class)
			}
		}
		if !have["ttnn::rand"] || !have["UniformDeviceOperation"] {
			t.Errorf("%s: ttnn::rand isn't in the graph", name)
		}
	}

	outs := chain(b.ctx, x)
	tr, err := b.Capture(b.ctx, "rows and elements", func(ctx context.Context) error { chain(ctx, x, outs...); return nil })
	b.must(err)
	next := b.put(normal(dims, ops.BFloat16, 3), ops.Tile, dram)
	h, err := b.ToHost(b.ctx, next)
	b.must(err)
	b.must(b.CopyHostToDevice(b.ctx, h, x))
	b.must(tr.Replay(b.ctx))
	got := b.get(outs[len(outs)-1])
	want := chain(b.ctx, next)
	equal(t, b.get(want[len(want)-1]), got, "replayed")
	b.must(tr.Release(b.ctx))
}

package ops_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/safetensors"
	"github.com/reprise-tt/reprise/tracebuf"
)

// A file with tensors is a model: inputs and results by name, weights from a safetensors file.
func TestLoadedModel(t *testing.T) {
	onBackends(t, func(b *bench) {
		host := func(rows, cols, seed int) *ops.Host {
			v := make([]float32, rows*cols)
			for i := range v {
				v[i] = float32((i*seed)%17 - 8)
			}
			h, err := ops.NewHost([]int{rows, cols}, ops.BFloat16, v)
			b.must(err)
			return h
		}
		device := func(h *ops.Host) *ops.Tensor { return b.ok(b.ToDevice(b.ctx, h, ops.Tile, dram)) }
		w, x := device(host(40, 64, 5)), device(host(32, 40, 3))
		m, err := b.CaptureModel(b.ctx, "product", func(ctx context.Context) ([]*ops.Tensor, error) {
			y, err := b.Matmul(ctx, x, w)
			return []*ops.Tensor{y}, err
		})
		b.must(err)
		y := m.Outputs()[0]
		var saved bytes.Buffer
		b.must(m.Replay(b.ctx))
		b.must(m.Save(b.ctx, &saved, reprise.WithData(w.Buffer(), x.Buffer()), reprise.WithResults(y.Buffer())))
		other := host(32, 40, 7)
		b.must(b.CopyHostToDevice(b.ctx, other, x))
		b.must(m.Replay(b.ctx))
		want, err := b.ToHost(b.ctx, y)
		b.must(err)

		file, err := tracebuf.Decode(&saved)
		b.must(err)
		for i := range file.Image.Buffers {
			u := &file.Image.Buffers[i]
			for name, of := range map[string]*ops.Tensor{"w": w, "x": x, "y": y} {
				if u.Addr == uint64(of.Address()) {
					u.Name, u.Tensor = name, &tracebuf.Tensor{Shape: of.Shape(), DType: "BFLOAT16", Tiles: true, Input: name == "x"}
				}
			}
		}
		// PyTorch has the weights of a linear layer in the other order.
		var weights bytes.Buffer
		turned, err := ops.NewHost([]int{64, 40}, ops.Float32, transposed(ops.Values[float32](host(40, 64, 5)), 40))
		b.must(err)
		b.must(safetensors.Write(&weights, map[string]*ops.Host{"linear": turned, "unused": host(32, 40, 9)}, nil))
		from, err := safetensors.NewFile(bytes.NewReader(weights.Bytes()), int64(weights.Len()))
		b.must(err)
		if n := from.Refer(file); n != 1 || len(file.Data) != 1 {
			b.Fatalf("%d weights are in the safetensors file, %d contents in the trace's", n, len(file.Data))
		}
		saved.Reset()
		b.must(tracebuf.Encode(&saved, file))
		b.must(m.Release(b.ctx))
		b.must(b.Deallocate(w))
		b.must(b.Deallocate(x))

		trace, err := b.dev.LoadTrace(b.ctx, &saved)
		b.must(err)
		loaded, err := b.LoadedModel(trace)
		b.must(err)
		if d := cmp.Diff([][]string{{"x"}, {"y"}, {"linear"}}, [][]string{loaded.Inputs(), loaded.Results(), loaded.Missing()}); d != "" {
			b.Errorf("inputs, results and weights (-want +got):\n%s", d)
		}
		b.must(loaded.LoadWeights(b.ctx, from.Tensor))
		in, err := loaded.Tensor("x")
		b.must(err)
		b.must(b.CopyHostToDevice(b.ctx, other, in))
		b.must(loaded.Replay(b.ctx))
		got, err := b.ToHost(b.ctx, loaded.Outputs()[0])
		b.must(err)
		equal(b, want.Data, got.Data, "the loaded model's result")
		if _, err := loaded.Tensor("z"); !errors.Is(err, ops.ErrNoTensor) {
			b.Errorf("a tensor that isn't there: %v", err)
		}
		small := func(string) (*ops.Host, error) { return host(2, 2, 1), nil }
		if err := loaded.LoadWeights(b.ctx, small); !errors.Is(err, ops.ErrShape) {
			b.Errorf("a weight of another shape: %v", err)
		}
		b.must(loaded.Release(b.ctx))
	})
}

func transposed(v []float32, rows int) []float32 {
	out, cols := make([]float32, len(v)), len(v)/rows
	for i, x := range v {
		out[i%cols*rows+i/cols] = x
	}
	return out
}

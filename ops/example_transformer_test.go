package ops_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

// The sizes of a block: its rows, heads of queries, those of keys and values that they share, the
// width of a head, the width inside the network after them, and the most positions.
const (
	width, heads, kvHeads, headWidth, hidden, positions = 128, 2, 1, 64, 192, 64
)

// weights are the parameters of a block, by name: matrices row by row.
type weights map[string]*ops.Host

// randomWeights returns weights that are the same for the same seed. Norms have ones.
func randomWeights(seed uint64) weights {
	r := rand.New(rand.NewPCG(seed, 0))
	w := weights{}
	matrix := func(name string, rows, columns int, f func(row, column int) float64) {
		v := make([]float32, rows*columns)
		for i := range v {
			v[i] = float32(f(i/columns, i%columns))
		}
		h, err := ops.NewHost([]int{rows, columns}, ops.BFloat16, v)
		if err != nil {
			log.Fatal(err)
		}
		w[name] = h
	}
	normal := func(name string, rows, columns int) {
		matrix(name, rows, columns, func(int, int) float64 { return r.NormFloat64() / math.Sqrt(float64(rows)) })
	}
	normal("qkv", width, (heads+2*kvHeads)*headWidth)
	normal("project", heads*headWidth, width)
	normal("gate", width, hidden)
	normal("up", width, hidden)
	normal("down", hidden, width)
	matrix("norm 1", 1, width, func(int, int) float64 { return 1 })
	matrix("norm 2", 1, width, func(int, int) float64 { return 1 })
	angle := func(position, column int) float64 {
		return float64(position) * math.Pow(10000, -float64(column%(headWidth/2))/(headWidth/2))
	}
	matrix("cos", positions, headWidth, func(p, c int) float64 { return math.Cos(angle(p, c)) })
	matrix("sin", positions, headWidth, func(p, c int) float64 { return math.Sin(angle(p, c)) })
	return w
}

// block is a block of a transformer on a device, which takes one row at a time.
type block struct {
	*ops.Device
	on           map[string]*ops.Tensor // weights
	in           *ops.Tensor            // the row
	keys, values *ops.Tensor            // caches
	heads        ops.Heads
	results      []*ops.Tensor // of the operations of a step, in their order
	next         int           // the one that comes next
	err          error         // the first one of a step
}

// newBlock sends weights to a device, and empty caches.
func newBlock(ctx context.Context, d *ops.Device, w weights) (*block, error) {
	b := &block{Device: d, on: map[string]*ops.Tensor{}}
	send := func(h *ops.Host) *ops.Tensor {
		t, err := d.ToDevice(ctx, h, ops.Tile, ops.Interleaved(allocator.DRAM))
		if b.err == nil {
			b.err = err
		}
		return t
	}
	zeros := func(shape ...int) *ops.Tensor {
		n := 2
		for _, k := range shape {
			n *= k
		}
		return send(&ops.Host{Shape: shape, DType: ops.BFloat16, Data: make([]byte, n)})
	}
	for name, h := range w {
		b.on[name] = send(h)
	}
	b.in = zeros(1, 1, 1, width)
	b.keys, b.values = zeros(1, kvHeads, positions, headWidth), zeros(1, kvHeads, positions, headWidth)
	return b, b.err
}

// do runs an operation. Its result goes into that of the step before, if there was one.
func (b *block) do(op func(opts ...ops.OpOption) (*ops.Tensor, error), opts ...ops.OpOption) *ops.Tensor {
	if b.err != nil {
		return nil
	}
	if b.next < len(b.results) {
		opts = append(opts, ops.Into(b.results[b.next]))
	}
	var t *ops.Tensor
	if t, b.err = op(opts...); b.err == nil && b.next == len(b.results) {
		b.results = append(b.results, t)
	}
	b.next++
	return t
}

func (b *block) norm(ctx context.Context, x *ops.Tensor, weights string) *ops.Tensor {
	return b.do(func(opts ...ops.OpOption) (*ops.Tensor, error) {
		return b.RMSNorm(ctx, x, b.on[weights], 1e-5, opts...)
	})
}

func (b *block) linear(ctx context.Context, x *ops.Tensor, weights string, opts ...ops.OpOption) *ops.Tensor {
	return b.do(func(opts ...ops.OpOption) (*ops.Tensor, error) { return b.Linear(ctx, x, b.on[weights], nil, opts...) }, opts...)
}

func (b *block) add(ctx context.Context, x, y *ops.Tensor) *ops.Tensor {
	return b.do(func(opts ...ops.OpOption) (*ops.Tensor, error) { return b.Add(ctx, x, y, opts...) })
}

// position is the parameter of a trace that says which row of a sequence a step computes.
var position = ops.WithParam("position")

func (b *block) rotate(ctx context.Context, x *ops.Tensor, at int) *ops.Tensor {
	return b.do(func(opts ...ops.OpOption) (*ops.Tensor, error) {
		return b.RotaryEmbedding(ctx, x, b.on["cos"], b.on["sin"], at, opts...)
	}, position)
}

// attend computes the attention of a row to the rows before it and to itself, which it adds to the
// caches.
func (b *block) attend(ctx context.Context, x *ops.Tensor, at int) *ops.Tensor {
	qkv := b.linear(ctx, x, "qkv")
	if b.err == nil {
		var opts []ops.OpOption
		if h := b.heads; h.Q != nil {
			opts = append(opts, ops.IntoEach(h.Q, h.K, h.V))
		}
		b.heads, b.err = b.SplitHeads(ctx, qkv, heads, kvHeads, opts...)
	}
	q, k := b.rotate(ctx, b.heads.Q, at), b.rotate(ctx, b.heads.K, at)
	if b.err == nil {
		b.err = b.UpdateCache(ctx, b.keys, k, at, position)
	}
	if b.err == nil {
		b.err = b.UpdateCache(ctx, b.values, b.heads.V, at, position)
	}
	rows := b.do(func(opts ...ops.OpOption) (*ops.Tensor, error) {
		return b.ScaledDotProductAttentionDecode(ctx, q, b.keys, b.values, at, ops.Attention{}, opts...)
	}, position)
	return b.do(func(opts ...ops.OpOption) (*ops.Tensor, error) { return b.ConcatHeads(ctx, rows, opts...) })
}

// step computes the block for the row in b.in.
func (b *block) step(ctx context.Context, at int) (*ops.Tensor, error) {
	b.next, b.err = 0, nil
	x := b.add(ctx, b.in, b.linear(ctx, b.attend(ctx, b.norm(ctx, b.in, "norm 1"), at), "project"))
	h := b.norm(ctx, x, "norm 2")
	gate, up := b.linear(ctx, h, "gate", ops.WithActivation(ops.SiLU)), b.linear(ctx, h, "up")
	inner := b.do(func(opts ...ops.OpOption) (*ops.Tensor, error) { return b.Multiply(ctx, gate, up, opts...) })
	return b.add(ctx, x, b.linear(ctx, inner, "down")), b.err
}

// capture records a step as a trace, and returns it with the tensor that its replays leave the
// result in.
func (b *block) capture(ctx context.Context) (trace *reprise.Trace, out *ops.Tensor, err error) {
	if _, err = b.step(ctx, 0); err == nil { // loads the programs and allocates the results
		trace, err = b.Capture(ctx, "block", func(ctx context.Context) (err error) {
			out, err = b.step(ctx, 0)
			return err
		})
	}
	return trace, out, err
}

// A block of a transformer: RMS norm, attention with rotary embeddings and key-value caches, and a
// gated network. One trace computes it for a row of a sequence at any position.
func Example_transformerBlock() {
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	defer dev.Close(ctx)
	d := ops.New(dev)
	defer d.Release(ctx)

	b, err := newBlock(ctx, d, randomWeights(1))
	check(err)
	trace, out, err := b.capture(ctx)
	check(err)
	defer trace.Release(ctx)
	fmt.Println(len(trace.Parts()[0].Steps), "programs")

	row := make([]float32, width)
	for at := range uint32(4) {
		for i := range row {
			row[i] = float32(math.Sin(float64(i) * float64(at+1)))
		}
		h, err := ops.NewHost([]int{1, 1, 1, width}, ops.BFloat16, row)
		check(err)
		check(d.CopyHostToDevice(ctx, h, b.in))
		check(trace.Set("position", at))
		check(trace.Replay(ctx))
		y, err := d.ToHost(ctx, out)
		check(err)
		fmt.Println(at, ops.Values[float32](y)[:4])
	}
	// Output:
	// 19 programs
	// 0 [-0.28710938 1.8046875 0.23925781 0.2265625]
	// 1 [-1.171875 2.46875 0.2109375 0.828125]
	// 2 [0.40234375 0.28515625 0.22070312 -0.15625]
	// 3 [-0.578125 -0.953125 0.18359375 -0.50390625]
}

package ops

import (
	"cmp"
	"context"
	"math"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// kColumns and kChunk in kernels/attention.h: tiles of values in a block, and tiles of keys whose
// scores are in L1 at once.
const attentionColumns, attentionChunk = 4, 8

// Attention says which keys queries attend to, and how much.
type Attention struct {
	// Causal lets a query attend only to the keys up to its position.
	Causal bool
	// Mask is added to the scores unless it is nil: [batches or 1, heads or 1, query rows, key
	// rows], of the operands' data type, in tile layout.
	Mask *Tensor
	// Scale is the factor of scores; 0 stands for 1/sqrt(width).
	Scale float32
}

// ScaledDotProductAttention returns softmax(scale q kᵀ + mask) v of each head: the prefill. Queries
// are [batches, heads, rows, width], keys [batches, kvHeads, n, width] and values [batches,
// kvHeads, n, any width]; heads is a multiple of kvHeads, and neighbouring heads share keys and
// values. The result has a row for each query, as wide as the values. With Causal, query i attends
// to keys 0 to i. A query must attend to some key.
//
// All tensors are floats of one data type in tile layout. A core has a row of tiles of queries, and
// takes 256 keys at a time, with scores in fp32, as flash attention does. Probabilities are rounded
// to the data type, or to TF32, before they are summed and multiplied by the values. Keys and
// values after the last attended key are multiplied by 0 and must be finite.
func (d *Device) ScaledDotProductAttention(ctx context.Context, q, k, v *Tensor, a Attention, opts ...OpOption) (*Tensor, error) {
	return d.attention(ctx, attention{Attention: a, name: "scaled_dot_product_attention", q: q, k: k, v: v}, opts)
}

// ScaledDotProductAttentionDecode is [Device.ScaledDotProductAttention] of queries at positions
// position, position+1, ... against caches of keys and values, which have the new rows already (see
// [Device.UpdateCache]): query i attends to keys 0 to position+i. In a capture [WithParam] makes
// the position a parameter of the trace; positions after the last key attend to all of them.
//
// Queries have the shape of the prefill, unlike TT-NN's scaled_dot_product_attention_decode, whose
// heads are rows.
func (d *Device) ScaledDotProductAttentionDecode(ctx context.Context, q, k, v *Tensor, position int, a Attention,
	opts ...OpOption) (*Tensor, error) {
	a.Causal = true
	return d.attention(ctx, attention{a, "scaled_dot_product_attention_decode", q, k, v, position}, opts)
}

type attention struct {
	Attention
	name     string
	q, k, v  *Tensor
	position int
}

func (d *Device) attention(ctx context.Context, a attention, opts []OpOption) (*Tensor, error) {
	args := argList{a.q, a.k, a.v, optional(a.Mask), a.Causal, a.Scale, a.position}
	return d.do(ctx, "ttnn::transformer::"+a.name, args, func(c *call) (*Tensor, error) {
		in := present(a.q, a.k, a.v, a.Mask)
		if err := sameKind(in...); err != nil {
			return nil, err
		}
		if err := a.fits(); err != nil {
			return nil, err
		}
		dims := a.q.dims
		s := c.shaped(a.q, []int{dims[0], dims[1], dims[2], a.v.dims[3]})
		return c.compute("sdpa", "SDPAOperation", args, s, func(out *Tensor) job { return a.job(out, in) })
	}, opts...)
}

func (a *attention) fits() error {
	x, y, z := a.q.dims, a.k.dims, a.v.dims
	if y[0] != x[0] || z[0] != x[0] || x[1]%y[1] != 0 || z[1] != y[1] || z[2] != y[2] || y[3] != x[3] {
		return shapeError("queries of %v, keys of %v and values of %v: want the same batches, a multiple of the keys' heads, "+
			"keys as wide as queries, and a value for each key", a.q.spec.Shape, a.k.spec.Shape, a.v.spec.Shape)
	}
	if a.position < 0 || a.position+x[2] > y[2] && a.Causal {
		return shapeError("%d queries at position %d, and %d keys: want a key for each position", x[2], a.position, y[2])
	}
	if a.Mask == nil {
		return nil
	}
	if m := a.Mask.dims; m[0] != 1 && m[0] != x[0] || m[1] != 1 && m[1] != x[1] || m[2] != x[2] || m[3] != y[2] {
		return shapeError("a mask of %v for %d queries and %d keys: want a row for each query with an element for each key",
			a.Mask.spec.Shape, x[2], y[2])
	}
	return nil
}

func (a *attention) job(out *Tensor, in []*Tensor) job {
	q, k, v := a.q.geometry, a.k.geometry, a.v.geometry
	causal, masked, scale := flag(a.Causal), flag(a.Mask != nil), cmp.Or(a.Scale, float32(1/math.Sqrt(float64(q.dims[3]))))
	return job{
		program: catalog.Attention, params: words(a.position), args: []uint32{causal, masked}, pieces: q.dims[0] * q.dims[1] * q.high,
		out: out, in: in,
		engineArgs: append(words(q.wide, v.wide, q.dims[2], q.high, k.dims[2]), causal, masked, math.Float32bits(scale)),
		buffers: tiles(2, q.wide, 2*k.wide, 2*attentionColumns, 2, 2, // from outside
			attentionChunk, attentionChunk, 1, 1, 1, attentionColumns, 1, 2*v.wide), // of the engines
	}
}

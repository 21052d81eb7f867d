package ops

import (
	"cmp"
	"context"
	"fmt"
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

// Heads are queries, keys and values of the heads of attention.
type Heads struct{ Q, K, V *Tensor }

// SplitHeads cuts rows of queries, keys and values into heads, as TT-NN's nlp_create_qkv_heads. The
// tensor is [batches, 1, rows, (heads + 2 kvHeads) width], in tile layout, of any data type: the
// queries of all heads, then keys, then values. The results are [batches, heads, rows, width] and
// twice [batches, kvHeads, rows, width]; width is a multiple of 32.
//
// [IntoEach] takes three tensors.
func (d *Device) SplitHeads(ctx context.Context, a *Tensor, heads, kvHeads int, opts ...OpOption) (Heads, error) {
	args := argList{a, heads, kvHeads}
	var out [3]*Tensor
	_, err := d.do(ctx, "ttnn::experimental::nlp_create_qkv_heads", args, func(c *call) (*Tensor, error) {
		dims := a.dims
		all := heads + 2*kvHeads
		if heads < 1 || kvHeads < 1 || dims[1] != 1 || dims[3]%(all*tileSize) != 0 {
			return nil, shapeError("%v into %d heads and twice %d: want [batches, 1, rows, %d width], where width is a multiple of %d", a.spec.Shape,
				heads, kvHeads, all, tileSize)
		}
		if err := c.checkEach(3); err != nil {
			return nil, err
		}
		width := dims[3] / all
		wide := width / tileSize
		begin := 0
		err := c.results(out[:], func(i int) (*Tensor, error) {
			n, first := []int{heads, kvHeads, kvHeads}[i], begin
			begin += n * wide
			return c.gather("nlp_create_qkv_heads", "NlpCreateHeadsDeviceOperation", a, []int{dims[0], n, dims[2], width},
				first, [][2]int{{dims[0], a.high * a.wide}, {n, wide}, {a.high, a.wide}, {wide, 1}})
		})
		c.others = out[1:]
		return out[0], err
	}, opts...)
	if err != nil {
		return Heads{}, err
	}
	return Heads{out[0], out[1], out[2]}, nil
}

// ConcatHeads puts the rows of heads side by side, as TT-NN's nlp_concat_heads: [batches, heads,
// rows, width] becomes [batches, 1, rows, heads width]. Otherwise it is as [Device.SplitHeads].
func (d *Device) ConcatHeads(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::experimental::nlp_concat_heads", argList{a}, func(c *call) (*Tensor, error) {
		g := a.geometry
		if g.dims[3]%tileSize != 0 {
			return nil, shapeError("heads of %v: want a width that is a multiple of %d", g.spec.Shape, tileSize)
		}
		return c.gather("nlp_concat_heads", "NLPConcatHeadsDeviceOperation", a, []int{g.dims[0], 1, g.dims[2], g.dims[1] * g.dims[3]},
			0, [][2]int{{g.dims[0], g.dims[1] * g.high * g.wide}, {g.high, g.wide}, {g.dims[1], g.high * g.wide}, {g.wide, 1}})
	}, opts...)
}

// gather copies tiles (see strided).
func (c *call) gather(name, class string, a *Tensor, shape []int, first int, axes [][2]int) (*Tensor, error) {
	if err := inTiles(a); err != nil {
		return nil, err
	}
	s := c.shaped(a, shape)
	return c.deviceOp(name, class, argList{a, shape, s.Memory}, s, func(out *Tensor) error {
		if err := inTiles(out); err != nil {
			return err
		}
		return c.run(c.pages(strided(first, axes), out, a))
	})
}

// AllRows is the position of [Device.RotaryEmbedding] for rows at positions of their own.
const AllRows = -1

// RotaryEmbedding turns pairs of elements of each row by an angle that depends on the row's
// position, as TT-NN's rotary_embedding. It has the form of Hugging Face's models, where element i
// of a row is paired with element i + width/2:
//
//	y = x cos + rotate(x) sin, where rotate(x) is the negative right half of the row, then the left half.
//
// (The Llama authors' checkpoints pair neighbours; permuting the weights' columns converts them.)
//
// The tensor is [batches, heads, rows, width]; width is a multiple of 64. cos and sin have a row
// for each position, with the same angle for both elements of a pair: [1, 1, positions, width], or
// the tensor's batches and heads instead of 1. With [AllRows], row i is at position i. Otherwise
// all rows are at the given position, as in decoding, and in a capture [WithParam] makes it a
// parameter of the trace; beyond the last row of cos the last row is taken.
//
// All are floats of one data type in tile layout. BFloat16 products are exact, and their sum in 32
// bits is rounded once; each Float32 product is rounded.
func (d *Device) RotaryEmbedding(ctx context.Context, x, cos, sin *Tensor, position int, opts ...OpOption) (*Tensor, error) {
	args := argList{x, cos, sin, position}
	return d.do(ctx, "ttnn::experimental::rotary_embedding", args, func(c *call) (*Tensor, error) {
		if err := sameKind(x, cos, sin); err != nil {
			return nil, err
		}
		a, b := x.dims, cos.dims
		if a[3]%(2*tileSize) != 0 {
			return nil, shapeError("rows of %d elements: want a multiple of %d", a[3], 2*tileSize)
		}
		if b != sin.dims || b[3] != a[3] || b[0] != 1 && b[0] != a[0] || b[1] != 1 && b[1] != a[1] {
			return nil, shapeError("%v with cosines of %v and sines of %v: want two equal tensors, as wide, with a row for each position",
				x.spec.Shape, cos.spec.Shape, sin.spec.Shape)
		}
		at, one := uint32(position), uint32(1)
		switch {
		case position == AllRows && b[2] < a[2]:
			return nil, shapeError("%d rows, and cosines of %d positions: want one for each row", a[2], b[2])
		case position == AllRows:
			at, one = 0, 0
		case position < 0 || position >= b[2]:
			return nil, shapeError("position %d: cosines are of positions 0 to %d", position, b[2]-1)
		}
		if c.param != "" && one == 0 {
			return nil, fmt.Errorf("%w: rows at their own positions have none that could be parameter %q", ErrNoParam, c.param)
		}
		s := c.like(x)
		return c.compute("rotary_embedding", "RotaryEmbeddingDeviceOperation", args, s, func(out *Tensor) job {
			return job{
				program: catalog.Rotary, params: []uint32{at}, args: []uint32{one}, out: out, in: []*Tensor{x, cos, sin},
				engineArgs: words(out.wide), buffers: tiles(2, 4, 4),
			}
		})
	}, opts...)
}

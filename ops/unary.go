package ops

import (
	"cmp"
	"context"
	"math"
	"strings"

	"github.com/reprise-tt/reprise/ops/catalog"
)

func (d *Device) function(ctx context.Context, op string, a *Tensor, opts []OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::"+op, argList{a}, func(c *call) (*Tensor, error) {
		if err := floatTiles(a); err != nil {
			return nil, err
		}
		s := c.like(a)
		args := argList{a, "UnaryOpType::" + strings.ToUpper(op), s.Memory}
		return c.compute("unary", "UnaryDeviceOperation", args, s, func(out *Tensor) job {
			return each(catalog.UnaryTiles, cmp.Or(computeNames[op], op), out, a)
		})
	}, opts...)
}

// computeNames are the compute API's names of functions with other names in TT-NN.
var computeNames = map[string]string{"neg": "negative", "reciprocal": "recip"}

// Functions of elements take tensors of floats in tile layout. The vector unit computes in fp32:
// the error of a BFloat16 result is at most 0.505 units of its last place; docs/kernels.md has each
// function's.

// Abs is the absolute value of each element.
func (d *Device) Abs(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "abs", a, opts)
}

// Ceil rounds each element up to a whole number.
func (d *Device) Ceil(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "ceil", a, opts)
}

// Exp is e to the power of each element.
func (d *Device) Exp(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "exp", a, opts)
}

// Floor rounds each element down to a whole number.
func (d *Device) Floor(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "floor", a, opts)
}

// Frac is the fractional part of each element, with its sign.
func (d *Device) Frac(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "frac", a, opts)
}

// Gelu is each element times the standard normal distribution at it.
func (d *Device) Gelu(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "gelu", a, opts)
}

// Log is the natural logarithm of each element.
func (d *Device) Log(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "log", a, opts)
}

// Neg is each element with the other sign.
func (d *Device) Neg(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "neg", a, opts)
}

// Reciprocal is 1 divided by each element.
func (d *Device) Reciprocal(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "reciprocal", a, opts)
}

// Round is the whole number nearest to each element, ties to even.
func (d *Device) Round(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "round", a, opts)
}

// Rsqrt is 1 divided by the square root of each element.
func (d *Device) Rsqrt(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "rsqrt", a, opts)
}

// Sigmoid is 1 / (1 + e^-x) of each element x.
func (d *Device) Sigmoid(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "sigmoid", a, opts)
}

// Sign is -1, 0 or 1 for each element.
func (d *Device) Sign(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "sign", a, opts)
}

// Silu is each element times its sigmoid.
func (d *Device) Silu(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "silu", a, opts)
}

// Sqrt is the square root of each element.
func (d *Device) Sqrt(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "sqrt", a, opts)
}

// Square is the square of each element.
func (d *Device) Square(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "square", a, opts)
}

// Tanh is the hyperbolic tangent of each element.
func (d *Device) Tanh(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "tanh", a, opts)
}

// Trunc rounds each element to a whole number towards zero.
func (d *Device) Trunc(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "trunc", a, opts)
}

// Rand returns a tensor of uniformly distributed random numbers from low on and below high (or high
// by rounding). The spec is BFloat16 or Float32 in tile layout. Each core's stream starts at a hash
// of the seed and the core's first tile.
//
// The hardware's generators are shift registers that yield 23 bits after each shift by one bit.
// Mean and variance are those of the distribution, but numbers aren't independent: every second
// number of a row is half the one before it, plus 0 or half the width. The 1,024 numbers of a tile
// have some 94 values. Use numbers of the host for statistics.
func (d *Device) Rand(ctx context.Context, s Spec, low, high float32, seed uint32, opts ...OpOption) (*Tensor, error) {
	args := append(specArgs(s, d.id), low, high, seed)
	return d.do(ctx, "ttnn::rand", args, func(c *call) (*Tensor, error) {
		width := high - low
		if !(width >= 0 && width <= math.MaxFloat32) {
			return nil, shapeError("numbers from %v to %v", low, high)
		}
		s.Memory = c.memoryOr(s.Memory)
		return c.compute("uniform", "UniformDeviceOperation", args, s, func(out *Tensor) job {
			return job{
				program: catalog.Rand, out: out, buffers: tiles(2), numbers: []uint32{seed, math.Float32bits(low), math.Float32bits(width)},
			}
		})
	}, opts...)
}

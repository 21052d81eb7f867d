package ops

import (
	"context"
	"strings"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// function computes a function of elements that only the engines have. op is its name in TT-NN, kernel that in the compute API.
func (d *Device) function(ctx context.Context, op, kernel string, a *Tensor, opts []OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::"+op, []*Tensor{a}, argList{a}, func(c *call) (*Tensor, error) {
		if t := firstUnsupported(a); t != nil {
			return nil, t.unsupportedError()
		}
		s := a.geo.spec
		s.Memory = c.memoryLike(a, s.Shape, s.Layout)
		args := argList{a, "UnaryOpType::" + strings.ToUpper(op), s.Memory}
		return c.compute("ttnn::prim::unary", "UnaryDeviceOperation", args, s, func(out *Tensor) job {
			return each(catalog.UnaryTiles, kernel, out, a)
		})
	}, opts...)
}

// Functions of elements compute in fp32 on the vector unit: the error of a BFloat16 result is at most 0.505 units of its last place.
// The test of the compute API in package kernels has the error of each function over all BFloat16 numbers.

// Abs is the absolute value of each element. The tensor is one of floats in tile layout.
func (d *Device) Abs(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "abs", "abs", a, opts)
}

// Ceil is the next whole number from each element upwards. The tensor is one of floats in tile layout.
func (d *Device) Ceil(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "ceil", "ceil", a, opts)
}

// Exp is e to the power of each element. The tensor is one of floats in tile layout.
func (d *Device) Exp(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "exp", "exp", a, opts)
}

// Floor is the next whole number from each element downwards. The tensor is one of floats in tile layout.
func (d *Device) Floor(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "floor", "floor", a, opts)
}

// Frac is each element without its whole part, with its sign. The tensor is one of floats in tile layout.
func (d *Device) Frac(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "frac", "frac", a, opts)
}

// Gelu is each element times the standard normal distribution at it. The tensor is one of floats in tile layout.
func (d *Device) Gelu(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "gelu", "gelu", a, opts)
}

// Log is the natural logarithm of each element. The tensor is one of floats in tile layout.
func (d *Device) Log(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "log", "log", a, opts)
}

// Neg is each element with the other sign. The tensor is one of floats in tile layout.
func (d *Device) Neg(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "neg", "negative", a, opts)
}

// Reciprocal is 1 divided by each element. The tensor is one of floats in tile layout.
func (d *Device) Reciprocal(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "reciprocal", "recip", a, opts)
}

// Round is the whole number nearest to each element; the even one of two. The tensor is one of floats in tile layout.
func (d *Device) Round(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "round", "round", a, opts)
}

// Rsqrt is 1 divided by the square root of each element. The tensor is one of floats in tile layout.
func (d *Device) Rsqrt(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "rsqrt", "rsqrt", a, opts)
}

// Sigmoid is 1 / (1 + e^-x) of each element x. The tensor is one of floats in tile layout.
func (d *Device) Sigmoid(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "sigmoid", "sigmoid", a, opts)
}

// Sign is -1, 0 or 1 for each element. The tensor is one of floats in tile layout.
func (d *Device) Sign(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "sign", "sign", a, opts)
}

// Silu is each element times its sigmoid. The tensor is one of floats in tile layout.
func (d *Device) Silu(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "silu", "silu", a, opts)
}

// Sqrt is the square root of each element. The tensor is one of floats in tile layout.
func (d *Device) Sqrt(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "sqrt", "sqrt", a, opts)
}

// Square is the square of each element. The tensor is one of floats in tile layout.
func (d *Device) Square(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "square", "square", a, opts)
}

// Tanh is the hyperbolic tangent of each element. The tensor is one of floats in tile layout.
func (d *Device) Tanh(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "tanh", "tanh", a, opts)
}

// Trunc is the next whole number from each element towards zero. The tensor is one of floats in tile layout.
func (d *Device) Trunc(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.function(ctx, "trunc", "trunc", a, opts)
}

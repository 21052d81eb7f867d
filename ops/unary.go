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

// Quantize returns x / scale + zero of each element x as Int32: the nearest integer from -127 to
// 127, ties away from zero. The tensor is BFloat16 or Float32 in tile layout. The vector unit
// multiplies by 1 / scale in fp32. The scale is positive, and zero is from -2^24 to 2^24.
func (d *Device) Quantize(ctx context.Context, a *Tensor, scale float32, zero int32, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::quantize", argList{a, scale, zero}, func(c *call) (*Tensor, error) {
		if err := floatTiles(a); err != nil {
			return nil, err
		}
		if err := checkQuantization(scale, zero); err != nil {
			return nil, err
		}
		return c.quantize(catalog.Quantize, a, Int32, 1/scale, float32(zero))
	}, opts...)
}

// Requantize converts one quantisation to another: (q - zero) * scale / toScale + toZero of each
// element q, rounded as by [Device.Quantize]. The tensor is Int32 in tile layout.
func (d *Device) Requantize(ctx context.Context, a *Tensor, scale float32, zero int32, toScale float32, toZero int32,
	opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::requantize", argList{a, scale, zero, toScale, toZero}, func(c *call) (*Tensor, error) {
		if err := a.quantized(scale, zero); err != nil {
			return nil, err
		}
		if err := checkQuantization(toScale, toZero); err != nil {
			return nil, err
		}
		factor := scale / toScale
		return c.quantize(catalog.Quantize, a, Int32, factor, float32(toZero)-float32(float32(zero)*factor))
	}, opts...)
}

// Dequantize returns (q - zero) * scale of each element q of a tensor of Int32 in tile layout, as
// BFloat16 or the type of [WithDataType]. The numbers are as for [Device.Quantize].
func (d *Device) Dequantize(ctx context.Context, a *Tensor, scale float32, zero int32, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::dequantize", argList{a, scale, zero}, func(c *call) (*Tensor, error) {
		if err := a.quantized(scale, zero); err != nil {
			return nil, err
		}
		to := BFloat16
		if c.dtype != nil {
			to = *c.dtype
		}
		if !to.Float() {
			return nil, typeError("a result of %v: want BFloat16 or Float32", to)
		}
		return c.quantize(catalog.Dequantize, a, to, scale, -float32(zero))
	}, opts...)
}

func (c *call) quantize(p *catalog.Program, a *Tensor, to DataType, factor, number float32) (*Tensor, error) {
	s := c.like(a)
	s.DType = to
	args := argList{a, p.Engine.Name, factor, number, s.DType, s.Memory}
	return c.compute("binary_ng", "BinaryNgDeviceOperation", args, s, func(out *Tensor) job {
		return each(p, "", out, a, math.Float32bits(factor), math.Float32bits(number))
	})
}

func (t *Tensor) quantized(scale float32, zero int32) error {
	if s := t.spec; s.DType != Int32 {
		return typeError("%v: want Int32", s.DType)
	}
	return cmp.Or(inTiles(t), checkQuantization(scale, zero))
}

func checkQuantization(scale float32, zero int32) error {
	if !(scale >= 0x1p-125 && scale <= 0x1p125) || zero < -1<<24 || zero > 1<<24 {
		return shapeError("a scale of %v and a zero point of %d: want a positive number, and one from -2^24 to 2^24", scale, zero)
	}
	return nil
}

// Typecast converts the elements of a tensor to another data type. Floats are truncated to
// integers. Those out of range become the nearest of 0 to the largest unsigned integer, or of
// -2^31 + 1 to 2^31 - 1; NaN is as infinity of its sign. Integers become the nearest float, or
// narrower integers by their low bits.
//
// The engines convert tiles between BFloat16, Float32 and Int32: rounding to BFloat16 takes ties
// away from zero. RISC-V cores convert everything else, slowly, and ties go to the even number.
func (d *Device) Typecast(ctx context.Context, a *Tensor, to DataType, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::typecast", argList{a, to}, func(c *call) (*Tensor, error) {
		if to >= numDataTypes || to == BFloat8B {
			return nil, typeError("%v: want one of elements that stand alone (see Host.Convert for BFloat8B)", to)
		}
		s := c.like(a)
		s.DType = to
		from := a.spec.DType
		args := argList{a, from, to, s.Memory}
		if from == to {
			return c.copyAs("typecast", "TypecastDeviceOperation", args, a, s)
		}
		return c.deviceOp("typecast", "TypecastDeviceOperation", args, s, func(out *Tensor) error {
			if tilesForEngines(a, out) {
				return c.run(each(catalog.Typecast, catalog.ToFormat(to.format()), out, a))
			}
			return c.run(job{program: catalog.Convert, out: out, in: []*Tensor{a}, buffers: rings(1, a.pageBytes, out.pageBytes)})
		})
	}, opts...)
}

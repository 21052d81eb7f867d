package ops

import (
	"cmp"
	"context"
	"math"

	"github.com/reprise-tt/reprise/ops/catalog"
)

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

package ops

import (
	"context"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Quantize returns x / scale + zero of each element x as Int32: the nearest integer from -127 to 127, ties away from zero. The tensor
// is one of BFloat16 or Float32 in tile layout. The vector unit multiplies with 1 / scale in fp32. The scale is a positive number, and
// zero is from -2^24 to 2^24.
//
// Errors wrap [ErrDataType], [ErrMemory] for a tensor that isn't in tile layout, or [ErrShape] for numbers out of range.
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

// Requantize returns integers of one quantisation in another one: (q - zero) * scale / toScale + toZero of each element q, as
// [Device.Quantize] rounds it. The tensor is one of Int32 in tile layout.
func (d *Device) Requantize(ctx context.Context, a *Tensor, scale float32, zero int32, toScale float32, toZero int32,
	opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::requantize", argList{a, scale, zero, toScale, toZero}, func(c *call) (*Tensor, error) {
		if err := a.quantized(); err != nil {
			return nil, err
		}
		if err := checkQuantization(scale, zero); err != nil {
			return nil, err
		}
		if err := checkQuantization(toScale, toZero); err != nil {
			return nil, err
		}
		factor := scale / toScale
		return c.quantize(catalog.Quantize, a, Int32, factor, float32(toZero)-float32(float32(zero)*factor))
	}, opts...)
}

// Dequantize returns (q - zero) * scale of each element q of a tensor of Int32 in tile layout, as BFloat16 or what [WithDataType] says.
// The vector unit computes in fp32. The numbers are as for [Device.Quantize].
func (d *Device) Dequantize(ctx context.Context, a *Tensor, scale float32, zero int32, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::dequantize", argList{a, scale, zero}, func(c *call) (*Tensor, error) {
		if err := a.quantized(); err != nil {
			return nil, err
		}
		if err := checkQuantization(scale, zero); err != nil {
			return nil, err
		}
		to := BFloat16
		if c.dtype != nil {
			to = *c.dtype
		}
		if !to.Float() {
			return nil, fmt.Errorf("%w: a result of %v: want BFloat16 or Float32", ErrDataType, to)
		}
		return c.quantize(catalog.Dequantize, a, to, scale, -float32(zero))
	}, opts...)
}

// quantize runs a kernel that computes elements with a factor and a number.
func (c *call) quantize(p *catalog.Program, a *Tensor, to DataType, factor, number float32) (*Tensor, error) {
	s := a.geo.spec.clone()
	s.DType, s.Memory = to, c.memoryLike(a, s.Shape, s.Layout)
	args := argList{a, p.Engine.Name, factor, number, s.DType, s.Memory}
	return c.compute("ttnn::prim::binary_ng", "BinaryNgDeviceOperation", args, s, func(out *Tensor) job {
		return each(p, "", out, a, math.Float32bits(factor), math.Float32bits(number))
	})
}

// quantized returns an error unless a tensor has integers that the engines take.
func (t *Tensor) quantized() error {
	if s := t.geo.spec; s.DType != Int32 {
		return fmt.Errorf("%w: %v: want Int32", ErrDataType, s.DType)
	}
	return inTiles(t)
}

// checkQuantization returns an error for numbers that a quantisation can't have.
func checkQuantization(scale float32, zero int32) error {
	if !(scale >= 0x1p-125 && scale <= 0x1p125) || zero < -1<<24 || zero > 1<<24 {
		return fmt.Errorf("%w: a scale of %v and a zero point of %d: want a positive number, and one from -2^24 to 2^24", ErrShape, scale, zero)
	}
	return nil
}

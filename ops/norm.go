package ops

import (
	"context"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// LayerNorm returns (x - m) / sqrt(v + eps) for each element x, where m is the mean of its row and v the mean of the row's (x - m)^2,
// times gamma, plus beta. Tensors are of BFloat16 or Float32 in tile layout. gamma and beta are nil, or they have the tensor's data
// type and one row of its width; the result has the tensor's shape and data type. Padding doesn't count. eps is at least 0.
//
// The vector unit computes in fp32, as TT-NN does with fp32_dest_acc_en: of a row whose mean is not large beside its deviations, the
// error is at most 2^-18 of the result and of gamma, and that of rounding to BFloat16. Rows and weights stay in the L1 of a core if
// they take no more than 512 KiB, and are read for each of three passes otherwise.
//
// Errors wrap [ErrDataType], [ErrMemory] for a tensor that isn't in tile layout, or [ErrShape] for weights of another width.
func (d *Device) LayerNorm(ctx context.Context, a, gamma, beta *Tensor, eps float32, opts ...OpOption) (*Tensor, error) {
	return d.norm(ctx, norm{name: "layer_norm", kind: "LAYERNORM", eps: eps, gamma: gamma, beta: beta}, a, opts)
}

// RMSNorm returns x / sqrt(q + eps) for each element x, where q is the mean of its row's squares, times gamma. Otherwise it is as
// [Device.LayerNorm].
func (d *Device) RMSNorm(ctx context.Context, a, gamma *Tensor, eps float32, opts ...OpOption) (*Tensor, error) {
	return d.norm(ctx, norm{name: "rms_norm", kind: "RMSNORM", eps: eps, keepMean: true, gamma: gamma}, a, opts)
}

// norm is a normalisation of rows.
type norm struct {
	name, kind  string // in TT-NN
	eps         float32
	keepMean    bool
	gamma, beta *Tensor // or nil
}

func (d *Device) norm(ctx context.Context, n norm, a *Tensor, opts []OpOption) (*Tensor, error) {
	args := argList{a, n.eps, optional(n.gamma)}
	if !n.keepMean {
		args = append(args, optional(n.beta))
	}
	return d.do(ctx, "ttnn::"+n.name, args, func(c *call) (*Tensor, error) { return c.norm(n, a) }, opts...)
}

func (c *call) norm(n norm, a *Tensor) (*Tensor, error) {
	in := present(a, n.gamma, n.beta)
	if err := floatTiles(in...); err != nil {
		return nil, err
	}
	for _, w := range in[1:] {
		if err := a.fitsWeights(w); err != nil {
			return nil, err
		}
	}
	if !(n.eps >= 0 && n.eps <= math.MaxFloat32) {
		return nil, fmt.Errorf("%w: eps is %v: want a number from 0 on", ErrShape, n.eps)
	}
	s := c.like(a)
	args := argList{a, "LayerNormType::" + n.kind, n.eps, optional(n.gamma), optional(n.beta), s.Memory}
	return c.compute("ttnn::prim::layer_norm", "LayerNormDeviceOperation", args, s, func(out *Tensor) job {
		return n.operation(a).job(out, a)
	})
}

// operation returns what the engines do for a tensor.
func (n norm) operation(a *Tensor) rowOperation {
	var keep, weights uint32
	passes := 3
	if n.keepMean {
		keep, passes = 1, 2
	}
	if n.gamma != nil {
		weights |= 1
	}
	if n.beta != nil {
		weights |= 2
	}
	share := math.Float32bits(1 / float32(a.geo.dims[3]))
	return rowOperation{
		program: catalog.Norm, args: []uint32{keep, weights, share, math.Float32bits(n.eps)}, passes: passes, weights: []*Tensor{n.gamma, n.beta},
	}
}

// fitsWeights returns an error unless weights are one row of the tensor's width.
func (t *Tensor) fitsWeights(w *Tensor) error {
	if have, want := w.geo.spec.DType, t.geo.spec.DType; have != want {
		return fmt.Errorf("%w: weights of %v for a tensor of %v: want that of the tensor (see Typecast)", ErrDataType, have, want)
	}
	if w.geo.dims != [4]int{1, 1, 1, t.geo.dims[3]} {
		return fmt.Errorf("%w: weights of %v for a tensor of %v: want one row of its width", ErrShape, w.geo.spec.Shape, t.geo.spec.Shape)
	}
	return nil
}

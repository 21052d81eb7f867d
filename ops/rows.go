package ops

import (
	"context"
	"math"
	"slices"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// rowOperation is an engines' kernel that passes several times over each row of tiles, which one
// core has.
type rowOperation struct {
	program *catalog.Program
	args    []uint32  // after those of all these kernels
	passes  int       // over a row
	mask    *Tensor   // of the tensor's width, or nil
	weights []*Tensor // of one row each, or nil
	keeps   bool      // fp32 tiles of a row, if there is room; an argument after args says so
}

// maxResident limits the circular buffers of whole rows, in bytes; longer rows are read in each
// pass.
const maxResident = 512 << 10

func (o rowOperation) job(out, a *Tensor) job {
	wide, page := out.wide, a.pageBytes
	weights := present(slices.Clone(o.weights)...)
	in := append(present(a, o.mask), weights...)
	state := tileSize * tileSize * Float32.Size()
	resident, pages, kept := uint32(0), 2, 0
	if n := len(in) * wide * page; n <= maxResident {
		if o.keeps && n+wide*state <= maxResident {
			kept = wide
		}
		if resident, pages = 1, wide; 2*n+kept*state <= maxResident {
			pages = 2 * wide
		}
	}
	buffers := tiles(2, 1, 1, 1, 1, 1) // the result, operands, two fp32 tiles
	for i := range in {
		buffers[1+i].pages = pages
	}
	if o.keeps {
		o.args = append(slices.Clip(o.args), flag(kept > 0))
		buffers = append(buffers, tiles(kept)...)
	}
	columns := a.dims[3] - (wide-1)*tileSize
	return job{
		program: o.program, args: []uint32{resident, uint32(o.passes), uint32(len(weights)), flag(o.mask != nil)}, out: out, in: in,
		engineArgs: append([]uint32{uint32(wide), uint32(columns), resident}, o.args...), buffers: buffers, together: wide,
	}
}

// Softmax returns e^(x - m) / s for each element x, where m is the largest element of its row and s
// the sum of the row's e^(x - m). A row is the elements along dimension dim; -1 is the last one.
// Padding doesn't count. The tensor is BFloat16 or Float32 in tile layout; the result has its shape
// and data type.
//
// The vector unit computes in fp32, as TT-NN with fp32_dest_acc_en and numeric_stable: the error is
// at most 2^-18 of the result plus 2^-126, and that of rounding to BFloat16. A row of up to 512 KiB
// stays in L1; a longer one is read three times. For another dimension than the last one the tensor
// is permuted before and after, in memory as for [WithDim].
func (d *Device) Softmax(ctx context.Context, a *Tensor, dim int, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::softmax", argList{a, dim}, func(c *call) (*Tensor, error) {
		if err := floatTiles(a); err != nil {
			return nil, err
		}
		t, back, err := c.lastAlong(a, dim)
		if err != nil {
			return nil, err
		}
		if back == nil {
			return c.softmax(a, nil, 1)
		}
		out, err := c.scratch(1, t.spec)
		if err != nil {
			return nil, err
		}
		if err := c.leaving(out, func() (*Tensor, error) { return c.softmax(t, nil, 1) }); err != nil {
			return nil, err
		}
		return c.movedBack(out, a, back)
	}, opts...)
}

// ScaleMaskSoftmax is [Device.Softmax] of scale times the tensor, plus a mask, over the last
// dimension. The mask is nil, or has the tensor's data type, tile layout and width; each other
// dimension is the tensor's or 1. A row must have an element that isn't masked by minus infinity.
// The scale isn't 0. The scaled and masked element v is rounded to fp32, which adds 2^-23 of the
// row's largest |v| to the error.
func (d *Device) ScaleMaskSoftmax(ctx context.Context, a, mask *Tensor, scale float32, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::scale_mask_softmax", argList{a, scale, optional(mask)}, func(c *call) (*Tensor, error) {
		return c.softmax(a, mask, scale)
	}, opts...)
}

func (c *call) softmax(a, mask *Tensor, scale float32) (*Tensor, error) {
	if !(scale >= -math.MaxFloat32 && scale <= math.MaxFloat32) || scale == 0 {
		return nil, shapeError("a scale of %v: want a finite number other than 0", scale)
	}
	if mask != nil {
		if err := a.fitsType(mask, "a mask"); err != nil {
			return nil, err
		}
		if !fitsInto(mask.spec.Shape, a.spec.Shape) || mask.dims[3] != a.dims[3] {
			return nil, shapeError("a mask of %v for a tensor of %v: want its width, and its other dimensions or 1", mask.spec.Shape,
				a.spec.Shape)
		}
	}
	if err := floatTiles(present(a, mask)...); err != nil {
		return nil, err
	}
	s := c.like(a)
	args := argList{a, optional(mask), scale, s.Memory}
	return c.deviceOp("softmax", "SoftmaxDeviceOperation", args, s, func(out *Tensor) error {
		o := rowOperation{program: catalog.Softmax, args: []uint32{flag(mask != nil), math.Float32bits(scale)}, passes: 3, keeps: true}
		in, err := c.aligned(out, present(mask)...)
		if err != nil {
			return err
		}
		if mask != nil {
			o.mask = in[0]
		}
		return c.run(o.job(out, a))
	})
}

func (t *Tensor) fitsType(o *Tensor, what string) error {
	if have, want := o.spec.DType, t.spec.DType; have != want {
		return typeError("%s of %v for a tensor of %v: want that of the tensor (see Typecast)", what, have, want)
	}
	return nil
}

// LayerNorm returns (x - m) / sqrt(v + eps) * gamma + beta for each element x, where m is the mean
// of its row and v the mean of the row's (x - m)^2. Tensors are BFloat16 or Float32 in tile layout.
// gamma and beta are nil, or have the tensor's data type and one row of its width. Padding doesn't
// count. eps is at least 0.
//
// The vector unit computes in fp32, as TT-NN with fp32_dest_acc_en. If a row's mean is not large
// beside its deviations, the error is at most 2^-18 of the result and of gamma, and that of
// rounding to BFloat16. Squares overflow from 2^64 on: the result is then 0. Rows and weights of
// more than 512 KiB are read in each of three passes.
func (d *Device) LayerNorm(ctx context.Context, a, gamma, beta *Tensor, eps float32, opts ...OpOption) (*Tensor, error) {
	return d.norm(ctx, norm{name: "layer_norm", kind: "LAYERNORM", eps: eps, gamma: gamma, beta: beta}, a, opts)
}

// RMSNorm returns x / sqrt(q + eps) * gamma, where q is the mean of the row's squares. Otherwise it
// is as [Device.LayerNorm].
func (d *Device) RMSNorm(ctx context.Context, a, gamma *Tensor, eps float32, opts ...OpOption) (*Tensor, error) {
	return d.norm(ctx, norm{name: "rms_norm", kind: "RMSNORM", eps: eps, keepMean: true, gamma: gamma}, a, opts)
}

type norm struct {
	name, kind  string
	eps         float32
	keepMean    bool
	gamma, beta *Tensor
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
		if err := a.fitsType(w, "weights"); err != nil {
			return nil, err
		}
		if w.dims != [4]int{1, 1, 1, a.dims[3]} {
			return nil, shapeError("weights of %v for a tensor of %v: want one row of its width", w.spec.Shape, a.spec.Shape)
		}
	}
	if !(n.eps >= 0 && n.eps <= math.MaxFloat32) {
		return nil, shapeError("eps is %v: want a number from 0 on", n.eps)
	}
	s := c.like(a)
	args := argList{a, "LayerNormType::" + n.kind, n.eps, optional(n.gamma), optional(n.beta), s.Memory}
	return c.compute("layer_norm", "LayerNormDeviceOperation", args, s, func(out *Tensor) job {
		return n.operation(a).job(out, a)
	})
}

func (n norm) operation(a *Tensor) rowOperation {
	keep, weights := flag(n.keepMean), flag(n.gamma != nil)|flag(n.beta != nil)<<1
	share := math.Float32bits(1 / float32(a.dims[3]))
	return rowOperation{
		program: catalog.Norm, args: []uint32{keep, weights, share, math.Float32bits(n.eps)}, passes: 3 - int(keep),
		weights: []*Tensor{n.gamma, n.beta},
	}
}

package ops

import (
	"context"
	"math"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// ToMemoryConfig copies a tensor to a tensor of another memory configuration.
func (d *Device) ToMemoryConfig(ctx context.Context, a *Tensor, m MemoryConfig, opts ...OpOption) (*Tensor, error) {
	return d.move(ctx, "ttnn::to_memory_config", a, m, opts)
}

// Reshard copies a sharded tensor to other shards.
func (d *Device) Reshard(ctx context.Context, a *Tensor, m MemoryConfig, opts ...OpOption) (*Tensor, error) {
	if a != nil && (a.spec.Memory.Shard == nil || m.Shard == nil) {
		return nil, &opError{"ttnn::reshard", memoryError("from %v to %v: both must be sharded; ToMemoryConfig takes any",
			a.spec.Memory, m)}
	}
	return d.move(ctx, "ttnn::reshard", a, m, opts)
}

func (d *Device) move(ctx context.Context, name string, a *Tensor, m MemoryConfig, opts []OpOption) (*Tensor, error) {
	return d.do(ctx, name, argList{a, m}, func(c *call) (*Tensor, error) {
		s := a.spec
		s.Memory = m
		return c.copy(a, s)
	}, opts...)
}

// ToLayout copies a tensor to another layout. A sharded tensor becomes interleaved in the same
// memory unless an option says otherwise.
func (d *Device) ToLayout(ctx context.Context, a *Tensor, l Layout, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::to_layout", argList{a, l}, func(c *call) (*Tensor, error) {
		s := a.spec
		s.Layout = l
		c.place(&s, a)
		return c.copy(a, s)
	}, opts...)
}

func (c *call) copy(a *Tensor, s Spec) (*Tensor, error) {
	return c.copyAs("copy", "CopyDeviceOperation", argList{a, s.Layout, s.Memory}, a, s)
}

func (c *call) copyAs(name, class string, args argList, a *Tensor, s Spec) (*Tensor, error) {
	return c.deviceOp(name, class, args, s, func(out *Tensor) error { return c.repeated(out, a) })
}

// WithSteps makes Slice take every steps[i]-th element in dimension i, from 1 on.
func WithSteps(steps ...int) OpOption {
	return func(r *result) { r.steps = steps; r.given |= catalog.WithSteps }
}

// Slice copies the elements from begin up to, but not including, end in each dimension, or some of
// them (see [WithSteps]). It takes all data types, layouts and memories, and copies whole pages
// where possible. A dimension whose begin is its end becomes 0.
func (d *Device) Slice(ctx context.Context, a *Tensor, begin, end []int, opts ...OpOption) (*Tensor, error) {
	args := argList{a, begin, end}
	return d.do(ctx, "ttnn::slice", args, func(c *call) (*Tensor, error) {
		s := a.spec.clone()
		rank := len(s.Shape)
		if len(begin) != rank || len(end) != rank || c.steps != nil && len(c.steps) != rank {
			return nil, shapeError("%v from %v to %v: want a number for each dimension", s.Shape, begin, end)
		}
		m := whole(a.all)
		for i, n := range s.Shape {
			if begin[i] < 0 || begin[i] > end[i] || end[i] > n {
				return nil, shapeError("%v from %v to %v: want a part of the tensor", s.Shape, begin, end)
			}
			step := 1
			if c.steps != nil {
				step = c.steps[i]
			}
			if step < 1 {
				return nil, shapeError("steps %v: want 1 or more", c.steps)
			}
			s.Shape[i] = ceil(end[i]-begin[i], step)
			k := len(m.axes) - rank + i
			m.axes[k] = axis{from: k, begin: begin[i], step: step, taken: s.Shape[i]}
		}
		c.place(&s, a)
		return c.arrange("slice", "Slice", args, s, m, a)
	}, opts...)
}

// Tilize is [Device.ToLayout] to tiles under another name in graphs.
func (d *Device) Tilize(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.relay(ctx, a, relayout{Tile, "tilize", "tilize_with_val_padding", "Tilize", "TilizeWithValPadding"}, opts)
}

// Untilize is [Device.ToLayout] to rows under another name in graphs.
func (d *Device) Untilize(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.relay(ctx, a, relayout{RowMajor, "untilize", "untilize_with_unpadding", "Untilize", "UntilizeWithUnpadding"}, opts)
}

// relayout is a change of layout, with TT-NN's names without padding and with padding.
type relayout struct {
	to                               Layout
	name, padded, class, paddedClass string
}

func (d *Device) relay(ctx context.Context, a *Tensor, r relayout, opts []OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::"+r.name, argList{a}, func(c *call) (*Tensor, error) {
		s := a.spec.clone()
		if s.Layout == r.to {
			return nil, memoryError("the tensor is in %v already", r.to)
		}
		name, class := r.name, r.class
		if a.dims[2]%tileSize != 0 || a.dims[3]%tileSize != 0 {
			name, class = r.padded, r.paddedClass
		}
		s.Layout = r.to
		c.place(&s, a)
		return c.arrange(name, class, argList{a, s.Memory}, s, whole(a.all), a)
	}, opts...)
}

// Pad returns a tensor with padding[i] elements of a value, converted as by [Device.Typecast],
// before and after another one's in dimension i. It takes all data types, layouts and memories, and
// copies whole pages where possible.
func (d *Device) Pad(ctx context.Context, a *Tensor, padding [][2]int, value float64, opts ...OpOption) (*Tensor, error) {
	args := argList{a, padding, value}
	return d.do(ctx, "ttnn::pad", args, func(c *call) (*Tensor, error) {
		s := a.spec.clone()
		if len(padding) != len(s.Shape) {
			return nil, shapeError("padding %v of %v: want a pair for each dimension", padding, s.Shape)
		}
		m := whole(a.all)
		m.value = s.DType.element(value)
		for i, p := range padding {
			if p[0] < 0 || p[1] < 0 || p[0] > maxElements || p[1] > maxElements {
				return nil, shapeError("padding %v of %v: want numbers of elements from 0", padding, s.Shape)
			}
			s.Shape[i] += p[0] + p[1]
			m.axes[len(m.axes)-len(padding)+i].before = p[0]
		}
		if _, err := volume(s.Shape); err != nil {
			return nil, err
		}
		c.place(&s, a)
		return c.arrange("pad", "Pad", args, s, m, a)
	}, opts...)
}

// element returns the bits of an element; a float is rounded to nearest.
func (t DataType) element(v float64) uint32 {
	if !t.Float() {
		return t.integer(v)
	}
	var b [4]byte
	t.put(b[:], math.Float32bits(float32(v)))
	return t.bits(b[:])
}

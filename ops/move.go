package ops

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/ops/graph"
)

// ToMemoryConfig copies a tensor to a tensor of another memory configuration.
func (d *Device) ToMemoryConfig(ctx context.Context, a *Tensor, m MemoryConfig, opts ...OpOption) (*Tensor, error) {
	return d.move(ctx, "ttnn::to_memory_config", a, m, opts)
}

// Reshard copies a sharded tensor to a tensor with other shards. The error wraps [ErrMemory] if one of the two isn't sharded.
func (d *Device) Reshard(ctx context.Context, a *Tensor, m MemoryConfig, opts ...OpOption) (*Tensor, error) {
	if a != nil && (a.geo.spec.Memory.Shard == nil || m.Shard == nil) {
		return nil, fmt.Errorf("ops: ttnn::reshard: %w: from %v to %v: both must be sharded; ToMemoryConfig takes any", ErrMemory, a.geo.spec.Memory, m)
	}
	return d.move(ctx, "ttnn::reshard", a, m, opts)
}

func (d *Device) move(ctx context.Context, name string, a *Tensor, m MemoryConfig, opts []OpOption) (*Tensor, error) {
	return d.do(ctx, name, []*Tensor{a}, func() []graph.Arg { return []graph.Arg{a.arg(), text(m)} }, func(c *call) (*Tensor, error) {
		s := a.geo.spec
		s.Memory = m
		return c.copy(a, s)
	}, opts...)
}

// ToLayout copies a tensor to a tensor of another layout. The memory configuration stays the same, except that a sharded
// tensor becomes interleaved in the same memory unless an option gives it shards.
func (d *Device) ToLayout(ctx context.Context, a *Tensor, l Layout, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::to_layout", []*Tensor{a}, func() []graph.Arg { return []graph.Arg{a.arg(), text(l)} }, func(c *call) (*Tensor, error) {
		s := a.geo.spec
		s.Layout, s.Memory = l, c.memoryLike(a, s.Shape, l)
		return c.copy(a, s)
	}, opts...)
}

func (c *call) copy(a *Tensor, s Spec) (*Tensor, error) {
	return c.unary(opCopy, "ttnn::prim::copy", "CopyDeviceOperation", func() []graph.Arg { return []graph.Arg{a.arg(), text(s.Layout), text(s.Memory)} }, a, s)
}

// Slice copies a part of a tensor: the elements from begin up to, but not including, end in each dimension.
func (d *Device) Slice(ctx context.Context, a *Tensor, begin, end []int, opts ...OpOption) (*Tensor, error) {
	args := func() []graph.Arg { return []graph.Arg{a.arg(), text(shapeText(begin)), text(shapeText(end))} }
	return d.do(ctx, "ttnn::slice", []*Tensor{a}, args, func(c *call) (*Tensor, error) {
		s := a.geo.spec
		rank := len(s.Shape)
		if len(begin) != rank || len(end) != rank {
			return nil, fmt.Errorf("%w: %v from %v to %v: want a number for each dimension", ErrShape, s.Shape, begin, end)
		}
		shape := make([]int, rank)
		var at [4]int
		for i, n := range s.Shape {
			if begin[i] < 0 || begin[i] >= end[i] || end[i] > n {
				return nil, fmt.Errorf("%w: %v from %v to %v: want a part of the tensor that isn't empty", ErrShape, s.Shape, begin, end)
			}
			shape[i], at[4-rank+i] = end[i]-begin[i], begin[i]
		}
		s.Memory = c.memoryLike(a, shape, s.Layout)
		s.Shape = shape
		return c.unaryFrom(opCopy, "ttnn::prim::slice", "SliceDeviceOperation", args, a, at, s)
	}, opts...)
}

package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/ops/graph"
)

// call is an operation that is running.
type call struct {
	ctx context.Context
	d   *Device
	result
	planned []*Tensor // scratch memory of an operation without dispatch
	others  []*Tensor // results after the first one, for graphs: set when the functions inside have ended
}

// internalCall is the context key that marks an operation's own transfers and runs: graphs leave them out.
type internalCall struct{}

// takesBlocks are the operations that take tensors of BFloat8B, by their names in graphs.
var takesBlocks = map[string]bool{"ttnn::matmul": true, "ttnn::linear": true, "ttnn::from_device": true,
	"ttnn::copy_host_to_device_tensor": true}

// do runs an operation for the user. name is the function's name in graphs, in are its tensors.
func (d *Device) do(ctx context.Context, name string, in []*Tensor, args func() []graph.Arg, f func(*call) (*Tensor, error),
	opts ...OpOption) (*Tensor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &call{ctx: context.WithValue(ctx, internalCall{}, true), d: d}
	for _, o := range opts {
		o(&c.result)
	}
	if c.into != nil {
		if slices.Contains(in, c.into) {
			return nil, &opError{name, fmt.Errorf("%w: the result can't go into an operand", ErrMemory)}
		}
		in = append(slices.Clip(in), c.into)
	}
	for _, t := range in {
		if err := t.checkLocked(d); err != nil {
			return nil, &opError{name, err}
		}
		if t.geo.spec.DType == BFloat8B && !takesBlocks[name] {
			return nil, &opError{name, fmt.Errorf("%w: %v is for the right operand of a product", ErrDataType, BFloat8B)}
		}
	}
	t, err := c.function(name, args, func() (*Tensor, error) {
		t, err := f(c)
		err = c.releasePlanned(err)
		if err == nil && d.blocking && d.rec == nil && !d.captures.noDispatch() {
			err = d.q.Wait(c.ctx)
		}
		if err != nil {
			d.captures.failed(name, err)
		}
		return t, err
	})
	if err != nil {
		var miss *CacheMissError
		if errors.As(err, &miss) {
			return nil, err
		}
		return nil, &opError{name, err}
	}
	return t, nil
}

// function runs a function that graphs and Observers record. A function that hangs has no end in graphs.
func (c *call) function(name string, args func() []graph.Arg, f func() (*Tensor, error)) (*Tensor, error) {
	return c.observed(name, func() []string { return texts(args()) }, func() (*Tensor, error) { return c.captured(name, args, f) })
}

// texts returns the texts of arguments.
func texts(args []graph.Arg) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a.Text
	}
	return out
}

// captured runs a function that graphs record.
func (c *call) captured(name string, args func() []graph.Arg, f func() (*Tensor, error)) (*Tensor, error) {
	captures := &c.d.captures
	if !captures.active() {
		return f()
	}
	captures.begin(name, args())
	t, err := f()
	var h *dispatch.HangError
	switch {
	case errors.As(err, &h):
	case err != nil || t == nil:
		captures.end()
	default:
		out := []*graph.Tensor{t.graph()}
		for _, o := range c.others {
			out = append(out, o.graph())
		}
		captures.end(out...)
	}
	return t, err
}

// deviceOp allocates the result and computes it with one program. class is the name of TT-NN's class for the operation.
func (c *call) deviceOp(name, class string, args func() []graph.Arg, s Spec, run func(out *Tensor) error) (*Tensor, error) {
	if c.d.separateRepeat {
		class = "Device Operation"
	}
	return c.function(name, args, func() (*Tensor, error) {
		return c.function(class, func() []graph.Arg { return []graph.Arg{text(name), text(shapeText(s.Shape))} }, func() (*Tensor, error) {
			out, err := c.output(s)
			if err != nil {
				return nil, err
			}
			if err := run(out); err != nil {
				if c.into == nil {
					err = c.discard(err, out)
				}
				return nil, err
			}
			return out, nil
		})
	})
}

// output returns the tensor for the result: that of Into, or a new one.
func (c *call) output(s Spec) (*Tensor, error) {
	t := c.into
	if t == nil {
		return c.create(s)
	}
	if have := t.geo.spec; !slices.Equal(have.Shape, s.Shape) || have.DType != s.DType {
		return nil, fmt.Errorf("%w: the result is %v of %v, and it should go into %v of %v", ErrShape, s.Shape, s.DType, have.Shape, have.DType)
	}
	return t, nil
}

// create allocates a tensor.
func (c *call) create(s Spec) (*Tensor, error) {
	g, err := s.geometry()
	if err != nil {
		return nil, err
	}
	return c.function(c.d.createName(), func() []graph.Arg { return specArgs(s, c.d.id) }, func() (*Tensor, error) {
		c.d.lastID++
		t := &Tensor{d: c.d, id: c.d.lastID, geo: g}
		cfg := g.config(fmt.Sprintf("tensor %d", t.id))
		if c.d.captures.noDispatch() {
			var err error
			t.plan, err = c.d.captures.allocate(c.d, g, cfg)
			return t, err
		}
		if err := c.d.refuseLocked(fmt.Errorf("%w: it would have to allocate its result: say Into which tensor it goes",
			reprise.ErrInCapture)); err != nil {
			return nil, err
		}
		b, err := c.d.dev.NewBuffer(cfg)
		if err != nil {
			return nil, err
		}
		t.buf = b
		return t, nil
	})
}

// discard releases a tensor because of an error, and returns that error.
func (c *call) discard(err error, t *Tensor) error {
	if free := t.releaseLocked(); free != nil {
		return errors.Join(err, free)
	}
	return err
}

// memoryLike returns the memory configuration of a result: that of the option, or that of an operand. If the operand's shards
// are for another shape or layout, the result is interleaved in the same memory.
func (c *call) memoryLike(t *Tensor, shape []int, l Layout) MemoryConfig {
	s := t.geo.spec
	switch {
	case c.memory != nil:
		return c.memory.clone()
	case s.Memory.Shard != nil && (l != s.Layout || !slices.Equal(shape, s.Shape)):
		return Interleaved(s.Memory.Kind)
	}
	return s.Memory
}

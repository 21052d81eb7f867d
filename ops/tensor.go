package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/ops/graph"
)

// Tensor is a tensor in a device's memory.
type Tensor struct {
	d     *Device
	id    uint64
	geo   *geometry
	buf   *reprise.Buffer // nil if it is only planned
	plan  *planned        // of a tensor without a buffer
	parts []*Tensor       // of a tensor on a mesh: those on all chips, this one included
	users *int            // number of tensors that share the memory, or nil if no other does; guarded by d.mu
	freed bool            // guarded by d.mu

	borrowed bool // buf is the caller's
}

// ID returns the tensor's number in graphs.
func (t *Tensor) ID() uint64 { return t.id }

// Spec returns the tensor's shape, data type, layout and memory configuration.
func (t *Tensor) Spec() Spec { return t.geo.spec.clone() }

// Shape returns the tensor's shape.
func (t *Tensor) Shape() []int { return slices.Clone(t.geo.spec.Shape) }

// Buffer returns the memory of the tensor; nil for a tensor of a capture without dispatch.
func (t *Tensor) Buffer() *reprise.Buffer { return t.buf }

// Address returns the tensor's address in every bank. It is 0 for a tensor of a capture without dispatch that doesn't fit.
func (t *Tensor) Address() uint32 {
	if t.buf != nil {
		return t.buf.Addr()
	}
	return t.plan.addr
}

// checkLocked returns an error unless the tensor is one of d and can be used.
func (t *Tensor) checkLocked(d *Device) error {
	switch {
	case t == nil:
		return fmt.Errorf("%w: the tensor is nil", ErrShape)
	case t.d != d:
		return fmt.Errorf("tensor %d: %w", t.id, ErrWrongDevice)
	case t.freed:
		return fmt.Errorf("tensor %d: %w", t.id, ErrReleased)
	case t.buf == nil && t.plan.gen != d.captures.generation():
		return fmt.Errorf("tensor %d: %w", t.id, ErrPlanned)
	}
	return nil
}

// graph returns the tensor's description for graphs.
func (t *Tensor) graph() *graph.Tensor {
	s := t.geo.spec
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	g := &graph.Tensor{
		ID: t.id, Shape: s.Shape, DType: s.DType.String(), Layout: s.Layout.String(), Size: int64(n) * int64(s.DType.Size()),
		MemoryConfig: s.Memory.String(),
	}
	if s.DType == BFloat8B {
		g.Size = int64(t.geo.pages) * blockTileBytes
	}
	if t.buf != nil {
		g.Buffer = t.d.captures.buffer(t.d, t.buf)
	} else {
		g.Buffer = t.plan.buffer
	}
	for _, p := range t.parts {
		g.Devices = append(g.Devices, graph.DeviceTensor{Address: uint64(p.Address()), Device: p.d.id})
	}
	if g.Devices == nil {
		g.Devices = []graph.DeviceTensor{{Address: g.Buffer.Address, Device: t.d.id}}
	}
	return g
}

// arg returns the tensor as a function's argument.
func (t *Tensor) arg() graph.Arg {
	if t == nil || t.geo == nil {
		return graph.Arg{Text: "nullptr"}
	}
	s := t.geo.spec
	return graph.Arg{
		Text: fmt.Sprintf("Tensor(storage=DeviceStorage(),tensor_spec=TensorSpec(logical_shape=%s,tensor_layout=TensorLayout(dtype=%v,page_config=PageConfig(%v),memory_config=%v)))",
			shapeText(s.Shape), s.DType, s.Layout, s.Memory),
		Tensors: []*graph.Tensor{t.graph()},
	}
}

// text returns a value that isn't a tensor as a function's argument.
func text(v any) graph.Arg { return graph.Arg{Text: fmt.Sprint(v)} }

// Empty allocates a tensor. Its content is undefined.
func (d *Device) Empty(ctx context.Context, s Spec) (*Tensor, error) {
	return d.do(ctx, "ttnn::empty", nil, func() []graph.Arg { return specArgs(s, d.id) },
		func(c *call) (*Tensor, error) { return c.create(s) })
}

func specArgs(s Spec, device int) []graph.Arg {
	return []graph.Arg{text(shapeText(s.Shape)), text(s.DType), text(s.Layout), text(device), text(s.Memory)}
}

// ToDevice allocates a tensor and copies a host tensor to it.
func (d *Device) ToDevice(ctx context.Context, h *Host, l Layout, m MemoryConfig) (*Tensor, error) {
	return d.do(ctx, "ttnn::to_device", nil, func() []graph.Arg { return []graph.Arg{hostArg(h), text(d.id), text(m)} },
		func(c *call) (*Tensor, error) {
			if err := h.check(); err != nil {
				return nil, err
			}
			t, err := c.create(Spec{Shape: h.Shape, DType: h.DType, Layout: l, Memory: m})
			if err != nil {
				return nil, err
			}
			if err := c.write(h, t); err != nil {
				return nil, c.discard(err, t)
			}
			return t, nil
		})
}

// hostArg returns a host tensor as a function's argument. Graphs have no node for it.
func hostArg(h *Host) graph.Arg {
	if h == nil {
		return graph.Arg{Text: "nullptr"}
	}
	return text(fmt.Sprintf("HostTensor(%s,%v)", shapeText(h.Shape), h.DType))
}

// CopyHostToDevice copies a host tensor to a device tensor of the same shape and data type.
func (d *Device) CopyHostToDevice(ctx context.Context, h *Host, t *Tensor) error {
	_, err := d.do(ctx, "ttnn::copy_host_to_device_tensor", []*Tensor{t}, func() []graph.Arg { return []graph.Arg{hostArg(h), t.arg()} },
		func(c *call) (*Tensor, error) {
			if err := h.check(); err != nil {
				return nil, err
			}
			if err := h.fits(t.geo.spec); err != nil {
				return nil, err
			}
			return nil, c.write(h, t)
		})
	return err
}

func (c *call) write(h *Host, t *Tensor) error {
	if t.buf == nil || c.d.captures.noDispatch() {
		return nil
	}
	return c.d.q.Write(c.ctx, t.buf, 0, t.geo.encode(h.Data))
}

// ToHost waits for the operations before it and copies a tensor to the host.
func (d *Device) ToHost(ctx context.Context, t *Tensor) (*Host, error) {
	var h *Host
	_, err := d.do(ctx, "ttnn::from_device", []*Tensor{t}, func() []graph.Arg { return []graph.Arg{t.arg()} }, func(c *call) (*Tensor, error) {
		h = &Host{Shape: t.Shape(), DType: t.geo.spec.DType}
		if t.buf == nil || d.captures.noDispatch() {
			return nil, nil
		}
		pages := make([]byte, t.buf.Size())
		if err := d.q.Read(c.ctx, t.buf, 0, pages); err != nil {
			return nil, err
		}
		h.Data = t.geo.decode(pages)
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Deallocate frees the tensor's memory, unless another tensor shares it (see [Device.Reshape]). Operations that are in the queue still use it, and traces hold it.
func (d *Device) Deallocate(t *Tensor) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := t.checkLocked(d); err != nil {
		return &opError{"deallocate", err}
	}
	return t.releaseLocked()
}

// releaseLocked frees the memory.
func (t *Tensor) releaseLocked() error {
	if t.users != nil && *t.users > 1 {
		if t.buf == nil || !t.d.captures.noDispatch() {
			t.freed = true
			*t.users--
		}
		return nil
	}
	if t.buf != nil && t.d.captures.noDispatch() {
		// Only the graph records it: the device must stay unchanged.
		t.d.captures.deallocate(t.d.captures.buffer(t.d, t.buf))
		return nil
	}
	t.freed = true
	if t.borrowed {
		return nil
	}
	if t.buf != nil {
		return t.buf.Release()
	}
	t.d.captures.deallocate(t.plan.buffer)
	return t.plan.free()
}

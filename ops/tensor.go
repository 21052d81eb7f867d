package ops

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/ops/graph"
)

// Tensor is a tensor in a device's memory.
type Tensor struct {
	d  *Device
	id uint64
	*geometry
	buf   *reprise.Buffer // nil if it is only planned
	plan  *planned        // of a tensor without a buffer
	parts []*Tensor       // on all chips of a mesh, this one included
	users *int            // number of tensors that share the memory, or nil for one; guarded by d.mu
	freed bool            // guarded by d.mu

	borrowed bool // buf is the caller's
}

// ID returns the tensor's number in graphs.
func (t *Tensor) ID() uint64 { return t.id }

// String describes the tensor, such as "tensor 7: [1 32] DataType::BFLOAT16, ...".
func (t *Tensor) String() string {
	if t == nil || t.geometry == nil {
		return "no tensor"
	}
	return fmt.Sprintf("tensor %d: %v %v, %v, %v", t.id, t.spec.Shape, t.spec.DType, t.spec.Layout, t.spec.Memory)
}

// Spec returns the tensor's shape, data type, layout and memory configuration.
func (t *Tensor) Spec() Spec { return t.spec.clone() }

// Shape returns the tensor's shape.
func (t *Tensor) Shape() []int { return slices.Clone(t.spec.Shape) }

// Buffer returns the memory of the tensor; nil in a capture without dispatch.
func (t *Tensor) Buffer() *reprise.Buffer { return t.buf }

// Address returns the tensor's address in every bank; 0 if it didn't fit in a capture without
// dispatch.
func (t *Tensor) Address() uint32 {
	if t.buf != nil {
		return t.buf.Addr()
	}
	return t.plan.addr
}

// overlaps reports whether two tensors share memory. Live allocations have disjoint addresses, and
// a tensor begins where its allocation begins.
func (t *Tensor) overlaps(o *Tensor) bool {
	if t.buf == nil || o.buf == nil {
		return t.plan == o.plan
	}
	return t.buf.Kind() == o.buf.Kind() && t.buf.Addr() == o.buf.Addr()
}

func (t *Tensor) checkLocked(d *Device) error {
	switch {
	case t == nil:
		return shapeError("the tensor is nil")
	case t.d != d:
		return fmt.Errorf("tensor %d: %w", t.id, ErrWrongDevice)
	case t.freed:
		return fmt.Errorf("tensor %d: %w", t.id, ErrReleased)
	case t.buf == nil && t.plan.gen != d.captures.generation():
		return fmt.Errorf("tensor %d: %w", t.id, ErrPlanned)
	}
	return nil
}

func (t *Tensor) graph() *graph.Tensor {
	s := t.spec
	g := &graph.Tensor{
		ID: t.id, Shape: s.Shape, DType: s.DType.String(), Layout: s.Layout.String(), Size: int64(product(s.Shape) * s.DType.Size()),
		MemoryConfig: s.Memory.String(),
	}
	if s.DType == BFloat8B {
		g.Size = int64(t.pages) * blockTileBytes
	}
	if t.buf != nil {
		g.Buffer = t.d.captures.buffer(t.buf)
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

func (t *Tensor) arg() graph.Arg {
	if t == nil || t.geometry == nil {
		return graph.Arg{Text: "nullptr"}
	}
	s := t.spec
	return graph.Arg{
		Text: fmt.Sprintf("Tensor(storage=DeviceStorage(),tensor_spec=TensorSpec(logical_shape=%s,tensor_layout=TensorLayout(dtype=%v,page_config=PageConfig(%v),memory_config=%v)))",
			shapeText(s.Shape), s.DType, s.Layout, s.Memory),
		Tensors: []*graph.Tensor{t.graph()},
	}
}

// Deallocate frees the tensor's memory, unless another tensor shares it (see [Device.Reshape]).
// Operations in the queue still use it, and traces hold it.
func (d *Device) Deallocate(t *Tensor) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := t.checkLocked(d); err != nil {
		return &opError{"deallocate", err}
	}
	return t.releaseLocked()
}

func (t *Tensor) releaseLocked() error {
	planning := t.d.captures.noDispatch()
	if t.users != nil && *t.users > 1 {
		if t.buf == nil || !planning {
			t.freed = true
			*t.users--
		}
		return nil
	}
	if t.buf != nil && planning {
		// Only record the release: the device must stay unchanged.
		t.d.captures.deallocate(t.d.captures.buffer(t.buf))
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
	if t.plan.undo == nil {
		return nil
	}
	return t.plan.undo()
}

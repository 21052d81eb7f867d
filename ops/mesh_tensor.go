package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/mesh"
)

// MeshTensor is a tensor on each chip of a mesh, with the same Spec and the same address.
type MeshTensor struct {
	m     *Mesh
	buf   *mesh.Buffer // nil if it is only planned
	parts []*Tensor

	staging map[kind]*MeshTensor // of collectives with this result
}

// Spec returns the Spec of each chip's part.
func (t *MeshTensor) Spec() Spec { return t.parts[0].Spec() }

func (t *MeshTensor) args(i int) argList { return argList{t.parts[i]} }

// On returns the part on chip i. It can only be deallocated with the others.
func (t *MeshTensor) On(i int) *Tensor { return t.parts[i] }

// Empty allocates a tensor on all chips.
func (m *Mesh) Empty(ctx context.Context, s Spec) (*MeshTensor, error) {
	return m.make(ctx, "ttnn::empty", func(i int) argList { return specArgs(s, i) },
		func(ctx context.Context) (*MeshTensor, error) { return m.create(ctx, s) })
}

func (m *Mesh) create(ctx context.Context, s Spec) (*MeshTensor, error) {
	g, err := s.geometry()
	if err != nil {
		return nil, err
	}
	t := &MeshTensor{m: m}
	err = m.function(ctx, m.chips[0].createName(), func(i int) argList { return specArgs(s, i) },
		func(context.Context) ([]*Tensor, error) {
			for _, d := range m.chips {
				d.mu.Lock() // not during the allocation, in which the device's Observers are called
				d.lastID++
				t.parts = append(t.parts, &Tensor{d: d, id: d.lastID, geometry: g})
				d.mu.Unlock()
			}
			cfg := g.config(fmt.Sprintf("tensor %d", t.parts[0].id))
			if m.chips[0].captures.noDispatch() {
				for _, p := range t.parts {
					if err := (&plan{d: p.d}).allocate(p, cfg); err != nil {
						return nil, err
					}
				}
			} else {
				b, err := m.m.NewBuffer(mesh.BufferConfig{BufferConfig: cfg})
				if err != nil {
					return nil, err
				}
				t.buf = b
				for i, c := range m.m.Chips() {
					t.parts[i].buf = b.On(c)
				}
			}
			for _, p := range t.parts {
				p.parts = t.parts
			}
			return t.parts, nil
		})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ToDevice allocates a tensor and copies host tensors of equal shape and data type to it: one for
// each chip, or one for all.
func (m *Mesh) ToDevice(ctx context.Context, hs []*Host, l Layout, c MemoryConfig) (*MeshTensor, error) {
	if len(hs) != 1 && len(hs) != len(m.chips) {
		return nil, &opError{"ttnn::to_device", shapeError("%d host tensors for %d chips, want one or one for each", len(hs), len(m.chips))}
	}
	for _, h := range hs {
		if err := h.check(); err != nil {
			return nil, &opError{"ttnn::to_device", err}
		}
	}
	t, err := m.Empty(ctx, Spec{Shape: hs[0].Shape, DType: hs[0].DType, Layout: l, Memory: c})
	if err != nil {
		return nil, err
	}
	for i, d := range m.chips {
		if err := d.CopyHostToDevice(ctx, hs[i%len(hs)], t.parts[i]); err != nil {
			return nil, errors.Join(err, m.Deallocate(ctx, t))
		}
	}
	return t, nil
}

// ToHost copies the parts of a tensor to the host, in the order of the chips.
func (m *Mesh) ToHost(ctx context.Context, t *MeshTensor) ([]*Host, error) {
	if err := t.check(m); err != nil {
		return nil, &opError{"ttnn::from_device", err}
	}
	out := make([]*Host, len(m.chips))
	for i, d := range m.chips {
		var err error
		if out[i], err = d.ToHost(ctx, t.parts[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Deallocate frees the tensor's memory on all chips.
func (m *Mesh) Deallocate(ctx context.Context, t *MeshTensor) error {
	if err := t.check(m); err != nil {
		return &opError{"deallocate", err}
	}
	var errs []error
	m.mu.Lock()
	for c, x := range m.execs {
		if c.of == t {
			errs = append(errs, x.Release(ctx))
			delete(m.execs, c)
		}
	}
	m.mu.Unlock()
	errs = append(errs, m.freeStaging(ctx, t))
	for i, d := range m.chips {
		errs = append(errs, d.Deallocate(t.parts[i]))
	}
	return errors.Join(errs...)
}

func (m *Mesh) freeStaging(ctx context.Context, t *MeshTensor) error {
	var errs []error
	for k, s := range t.staging {
		errs = append(errs, m.Deallocate(ctx, s))
		delete(t.staging, k)
	}
	return errors.Join(errs...)
}

func (t *MeshTensor) check(m *Mesh) error {
	switch {
	case t == nil:
		return shapeError("the tensor is nil")
	case t.m != m:
		return ErrWrongDevice
	}
	return nil
}

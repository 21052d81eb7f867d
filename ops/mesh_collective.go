package ops

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/mesh"
)

// AllReduce sums a tensor's parts and leaves the sum on every chip. The parts are 32-bit integers,
// which wrap around, or Float32 or BFloat16, which are rounded after each addition in the order of
// mesh.Links. The result is interleaved in DRAM; its page size is a multiple of 4 up to 4096 bytes.
func (m *Mesh) AllReduce(ctx context.Context, t *MeshTensor, opts ...OpOption) (*MeshTensor, error) {
	const name = "ttnn::all_reduce"
	if err := t.check(m); err != nil {
		return nil, &opError{name, err}
	}
	s := t.result()
	sum, err := sumOf(s)
	if err != nil {
		return nil, &opError{name, err}
	}
	return m.make(ctx, name, t.args, func(ctx context.Context) (*MeshTensor, error) {
		return m.into(ctx, name, t, s, opts, func(out *MeshTensor) error {
			return m.exchange(ctx, name, "AllReduceAsyncDeviceOperation", out, func(i int, d *Device) error {
				_, err := d.ToMemoryConfig(ctx, t.parts[i], s.Memory, Into(out.parts[i]))
				return err
			}, func(b *mesh.Buffer) (*mesh.Executable, error) { return m.links.AllReduce(ctx, b, sum) })
		})
	})
}

func sumOf(s Spec) (mesh.Combine, error) {
	g, err := s.geometry()
	if err != nil {
		return mesh.Replace, err
	}
	tiles := g.pageBytes <= tileSize*tileSize*s.DType.Size() // a page fits into a tile
	switch {
	case s.DType == UInt32 || s.DType == Int32:
		return mesh.SumInt32, nil
	case s.DType == BFloat16 && tiles:
		return mesh.SumTilesBFloat16, nil
	case s.DType == Float32 && tiles:
		return mesh.SumTilesFloat32, nil
	case s.DType == BFloat16:
		return mesh.SumBFloat16, nil
	case s.DType == Float32:
		return mesh.SumFloat32, nil
	}
	return mesh.Replace, typeError("%v: links add 32-bit integers, float32 and bfloat16", s.DType)
}

// ReduceScatter sums a tensor's parts as [Mesh.AllReduce] does, and leaves slice i of the sum along
// the first dimension, of whole pages, on chip i of mesh.Links.Line.
func (m *Mesh) ReduceScatter(ctx context.Context, t *MeshTensor, opts ...OpOption) (*MeshTensor, error) {
	const name = "ttnn::reduce_scatter"
	if err := t.check(m); err != nil {
		return nil, &opError{name, err}
	}
	whole, s := t.result(), t.result()
	sum, err := sumOf(s)
	if err != nil {
		return nil, &opError{name, err}
	}
	n := len(m.chips)
	all, err := whole.geometry()
	if err == nil {
		_, err = dimension(0, s.Shape)
	}
	if err != nil {
		return nil, &opError{name, err}
	}
	s.Shape[0] /= n
	if g, err := s.geometry(); err != nil || s.Shape[0]*n != whole.Shape[0] || g.pages*n != all.pages || len(s.Shape) == 1 {
		return nil, &opError{name, shapeError("%v over %d chips: the slices must be equal, and each must have pages of its own",
			whole.Shape, n)}
	}
	return m.make(ctx, name, t.args, func(ctx context.Context) (*MeshTensor, error) {
		return m.into(ctx, name, t, s, opts, func(out *MeshTensor) (err error) {
			// Links sum in place and leave other chips' slices undefined.
			sums := out.sums
			if sums == nil {
				if sums, err = m.create(ctx, whole); err != nil {
					return err
				}
				if optionsOf(opts).mesh != nil { // it may come again, in a capture
					out.sums = sums
				} else {
					defer func() { err = errors.Join(err, m.Deallocate(ctx, sums)) }()
				}
			}
			err = m.exchange(ctx, name, "ReduceScatterDeviceOperation", sums, func(i int, d *Device) error {
				_, err := d.ToMemoryConfig(ctx, t.parts[i], whole.Memory, Into(sums.parts[i]))
				return err
			}, func(b *mesh.Buffer) (*mesh.Executable, error) { return m.links.ReduceScatter(ctx, b, sum) })
			for i, place := range m.places() {
				begin, end := make([]int, len(s.Shape)), slices.Clone(s.Shape)
				begin[0], end[0] = place*s.Shape[0], (place+1)*s.Shape[0]
				if err == nil {
					_, err = m.chips[i].Slice(ctx, sums.parts[i], begin, end, Into(out.parts[i]))
				}
			}
			return err
		})
	})
}

func (m *Mesh) places() []int {
	chips, out := m.m.Chips(), make([]int, len(m.chips))
	for i, c := range m.links.Line() {
		out[slices.Index(chips, c)] = i
	}
	return out
}

// AllGather concatenates the parts of all chips along the first dimension, in the order of
// mesh.Links.Line, on every chip. The result is as for [Mesh.AllReduce]; each part has whole pages.
func (m *Mesh) AllGather(ctx context.Context, t *MeshTensor, opts ...OpOption) (*MeshTensor, error) {
	const name = "ttnn::all_gather"
	if err := t.check(m); err != nil {
		return nil, &opError{name, err}
	}
	s := t.result()
	if _, err := dimension(0, s.Shape); err != nil {
		return nil, &opError{name, err}
	}
	s.Shape[0] *= len(m.chips)
	if g, err := s.geometry(); err != nil || g.pages != len(m.chips)*t.parts[0].pages || len(s.Shape) == 1 {
		return nil, &opError{name, shapeError("%v in %v: each part must have pages of its own in the result",
			t.parts[0].spec.Shape, s.Shape)}
	}
	times := slices.Repeat([]int{1}, len(s.Shape))
	times[0] = len(m.chips)
	// Every chip fills all places with its own part; the collective replaces the others.
	return m.make(ctx, name, t.args, func(ctx context.Context) (*MeshTensor, error) {
		return m.into(ctx, name, t, s, opts, func(out *MeshTensor) error {
			return m.exchange(ctx, name, "AllGatherDeviceOperation", out, func(i int, d *Device) error {
				_, err := d.Repeat(ctx, t.parts[i], times, Into(out.parts[i]))
				return err
			}, func(b *mesh.Buffer) (*mesh.Executable, error) { return m.links.AllGather(ctx, b) })
		})
	})
}

func (t *MeshTensor) result() Spec {
	s := t.Spec()
	s.Memory = Interleaved(allocator.DRAM)
	return s
}

// into has f fill a new tensor, or that of IntoMesh.
func (m *Mesh) into(ctx context.Context, name string, t *MeshTensor, s Spec, opts []OpOption,
	f func(out *MeshTensor) error) (*MeshTensor, error) {
	given := optionsOf(opts)
	if err := given.checkOptions(name); err != nil {
		return nil, err
	}
	if out := given.mesh; out != nil {
		switch err := out.check(m); {
		case err != nil:
			return nil, err
		case out == t:
			return nil, memoryError("the result can't go into the operand")
		case !reflect.DeepEqual(out.Spec(), s):
			return nil, shapeError("the result is %v, and should go into %v", s, out.Spec())
		}
		return out, f(out)
	}
	out, err := m.create(ctx, s)
	if err != nil {
		return nil, err
	}
	if err = f(out); err == nil {
		return out, nil
	}
	if free := m.Deallocate(ctx, out); free != nil {
		err = errors.Join(err, free)
	}
	return nil, err
}

// exchange fills a tensor on each chip and runs the program that load returns, which stays loaded
// until the tensor is deallocated.
func (m *Mesh) exchange(ctx context.Context, name, class string, t *MeshTensor, fill func(i int, d *Device) error,
	load func(*mesh.Buffer) (*mesh.Executable, error)) error {
	for i, d := range m.chips {
		if err := fill(i, d); err != nil {
			return err
		}
	}
	if m.chips[0].separateRepeat {
		class = "Device Operation"
	}
	args := func(int) argList { return argList{name, t.Spec().Shape} }
	return m.function(ctx, class, args, func(ctx context.Context) ([]*Tensor, error) {
		if t.buf == nil {
			return t.parts, nil
		}
		x, err := m.loaded(collective{name, t}, load)
		if err != nil {
			return nil, err
		}
		if r, ok := ctx.Value(meshRecordingOf{m}).(*mesh.Recorder); ok {
			return t.parts, r.Run(x)
		}
		for i, c := range m.m.Chips() {
			if part := x.On(c); part != nil {
				m.chips[i].captures.run(part)
			}
		}
		return t.parts, m.m.Queue(0).Run(context.WithValue(ctx, internalCall{}, true), x)
	})
}

func (m *Mesh) loaded(c collective, load func(*mesh.Buffer) (*mesh.Executable, error)) (*mesh.Executable, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.execs[c]
	if x == nil {
		var err error
		if x, err = load(c.of.buf); err != nil {
			return nil, err
		}
		m.execs[c] = x
	}
	return x, nil
}

package ops

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/mesh"
)

// AllReduce sums a tensor's parts and leaves the sum on every chip. Integers wrap around, as
// [Device.Add] has them. Float32 and BFloat16 are rounded after each addition in the order of
// mesh.Links. BFloat8B has no sum: the error wraps [ErrDataType]. The result is interleaved in
// DRAM; its pages have up to 4096 bytes.
func (m *Mesh) AllReduce(ctx context.Context, t *MeshTensor, opts ...OpOption) (*MeshTensor, error) {
	const name = "ttnn::all_reduce"
	return m.collective(ctx, name, t, opts, func() (Spec, fillMesh, error) {
		s := t.result()
		sum, err := sumOf(s)
		return s, func(ctx context.Context, out *MeshTensor) error {
			return m.exchange(ctx, name, "AllReduceAsyncDeviceOperation", out, func(i int, d *Device) error {
				_, err := d.ToMemoryConfig(ctx, t.parts[i], s.Memory, Into(out.parts[i]))
				return err
			}, func(b *mesh.Buffer) (*mesh.Executable, error) { return m.links.AllReduce(ctx, b, sum) })
		}, err
	})
}

type fillMesh func(ctx context.Context, out *MeshTensor) error

// collective runs a function that fills the result, of a spec that plan returns: a new tensor, or
// that of IntoMesh.
func (m *Mesh) collective(ctx context.Context, name string, t *MeshTensor, opts []OpOption,
	plan func() (Spec, fillMesh, error)) (*MeshTensor, error) {
	err := t.check(m)
	var s Spec
	var fill fillMesh
	if err == nil {
		s, fill, err = plan()
	}
	if err != nil {
		return nil, &opError{name, err}
	}
	return m.make(ctx, name, t.args, func(ctx context.Context) (*MeshTensor, error) {
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
			case out.parts[0].kind != s.kind():
				return nil, shapeError("the result is %v, and should go into %v", s, out.Spec())
			}
			return out, fill(ctx, out)
		}
		out, err := m.create(ctx, s)
		if err != nil {
			return nil, err
		}
		if err = errors.Join(fill(ctx, out), m.freeStaging(ctx, out)); err == nil {
			return out, nil
		}
		return nil, errors.Join(err, m.Deallocate(ctx, out))
	})
}

func sumOf(s Spec) (mesh.Combine, error) {
	g, err := s.geometry()
	if err != nil {
		return mesh.Replace, err
	}
	sums := map[DataType]mesh.Combine{UInt32: mesh.SumInt32, Int32: mesh.SumInt32, UInt16: mesh.SumInt16, UInt8: mesh.SumInt8,
		BFloat16: mesh.SumBFloat16, Float32: mesh.SumFloat32}
	if g.pageBytes <= tileSize*tileSize*s.DType.Size() { // a page fits into a tile
		sums[BFloat16], sums[Float32] = mesh.SumTilesBFloat16, mesh.SumTilesFloat32
	}
	if sum, ok := sums[s.DType]; ok {
		return sum, nil
	}
	return mesh.Replace, typeError("%v: links add integers, Float32 and BFloat16", s.DType)
}

// slicing is how slices of a tensor along a dimension, one for each chip, lie in the tensor that
// links exchange. There each slice has pages of its own, one slice after the other.
type slicing struct {
	whole, slice *geometry

	stage  Spec // the exchanged tensor
	dim    int  // of all its dimensions: that along which slices follow one another
	direct bool // it is the whole tensor
	// rows has the whole tensor's elements, row by row, in pages that each lie in one slice. It is
	// nil if the whole tensor's pages do.
	rows *Spec
	// grid is the number of pages of the whole tensor before the dimension, of slices, and of pages
	// of a slice along the dimension and after it.
	grid [3]int
}

// slicing cuts a tensor into slices, or takes its parts as slices to gather.
func (m *Mesh) slicing(t *MeshTensor, gather bool, opts []OpOption) (*slicing, error) {
	whole, slice, n := t.Spec(), t.result(), len(m.chips)
	if slice.DType == BFloat8B {
		return nil, typeError("%v: its tiles are operands of products on each chip", BFloat8B)
	}
	dim := 0
	if o := optionsOf(opts); o.dim != nil {
		dim = *o.dim
	}
	along, err := dimension(dim, slice.Shape)
	if err != nil {
		return nil, err
	}
	if gather {
		whole = t.result()
		whole.Shape[along] *= n
	} else if slice.Shape[along] /= n; slice.Shape[along]*n != whole.Shape[along] {
		return nil, shapeError("%v over %d chips: the slices along dimension %d must be equal", whole.Shape, n, along)
	}
	s := &slicing{stage: slice.clone()}
	if s.whole, err = whole.geometry(); err != nil {
		return nil, err
	}
	if s.slice, err = slice.geometry(); err != nil {
		return nil, err
	}
	dims := slices.Clone(s.slice.all)
	s.stage.Shape, s.dim = dims, len(dims)-len(slice.Shape)+along
	if !s.whole.equalPages(s.slice) || dims[s.dim]%s.whole.units()[s.dim] != 0 {
		s.stage.Layout = RowMajor
		rows := s.stage.clone()
		s.rows = &rows
		rows.Shape[min(s.dim, len(dims)-2)] *= n
	}
	g, err := s.stage.geometry()
	if err != nil {
		return nil, err
	}
	s.grid = [3]int{1, n, 1}
	for i, u := range g.units() {
		k := 0
		if i >= s.dim {
			k = 2
		}
		s.grid[k] *= ceil(g.all[i], u)
	}
	if s.direct = s.rows == nil && s.grid[0] == 1; s.direct {
		s.stage.Shape = whole.Shape
		return s, nil
	}
	s.dim = 0
	s.stage.Shape[0] *= n
	return s, nil
}

// ReduceScatter sums a tensor's parts as [Mesh.AllReduce] does, and leaves slice i of the sum on
// chip i of mesh.Links.Line: along the first dimension, or that of [WithDim]. Slices that share
// pages of the tensor are exchanged row by row.
func (m *Mesh) ReduceScatter(ctx context.Context, t *MeshTensor, opts ...OpOption) (*MeshTensor, error) {
	const name = "ttnn::reduce_scatter"
	return m.collective(ctx, name, t, opts, func() (Spec, fillMesh, error) {
		s, err := m.slicing(t, false, opts)
		if err != nil {
			return Spec{}, nil, err
		}
		sum, err := sumOf(s.stage)
		return s.slice.spec, func(ctx context.Context, out *MeshTensor) error {
			// Links sum in place and leave other chips' slices undefined.
			stage, rows, err := m.staging(ctx, out, s)
			if err != nil {
				return err
			}
			err = m.exchange(ctx, name, "ReduceScatterDeviceOperation", stage, func(i int, d *Device) (err error) {
				from := t.parts[i]
				if rows != nil {
					if from, err = d.Reshape(ctx, from, s.rows.Shape, Into(rows.parts[i])); err != nil {
						return err
					}
				}
				return d.regroup(ctx, stage.parts[i], from, s.grid, true)
			}, func(b *mesh.Buffer) (*mesh.Executable, error) { return m.links.ReduceScatter(ctx, b, sum) })
			for i, place := range m.places() {
				if err == nil {
					a := whole(s.slice.all)
					a.axes[s.dim].begin = place * s.slice.all[s.dim]
					err = m.chips[i].rearrangeInto(ctx, "slice", "Slice", out.parts[i], stage.parts[i], a)
				}
			}
			return err
		}, err
	})
}

func (m *Mesh) places() []int {
	chips, out := m.m.Chips(), make([]int, len(m.chips))
	for i, c := range m.links.Line() {
		out[slices.Index(chips, c)] = i
	}
	return out
}

// AllGather concatenates the parts of all chips along the first dimension, or that of [WithDim], in
// the order of mesh.Links.Line, on every chip. It takes all data types but BFloat8B. The result is
// as for [Mesh.AllReduce]. Parts that would share pages of it are exchanged row by row.
func (m *Mesh) AllGather(ctx context.Context, t *MeshTensor, opts ...OpOption) (*MeshTensor, error) {
	const name = "ttnn::all_gather"
	return m.collective(ctx, name, t, opts, func() (Spec, fillMesh, error) {
		s, err := m.slicing(t, true, opts)
		if err != nil {
			return Spec{}, nil, err
		}
		return s.whole.spec, func(ctx context.Context, out *MeshTensor) (err error) {
			stage, rows := out, (*MeshTensor)(nil)
			if !s.direct {
				if stage, rows, err = m.staging(ctx, out, s); err != nil {
					return err
				}
			}
			places := m.places()
			err = m.exchange(ctx, name, "AllGatherDeviceOperation", stage, func(i int, d *Device) error {
				a := whole(s.slice.all)
				a.axes[s.dim].before = places[i] * s.slice.all[s.dim]
				return d.rearrangeInto(ctx, "pad", "Pad", stage.parts[i], t.parts[i], a)
			}, func(b *mesh.Buffer) (*mesh.Executable, error) { return m.links.AllGather(ctx, b) })
			for i, d := range m.chips {
				to := cmp.Or(rows, out)
				if err == nil {
					err = d.regroup(ctx, to.parts[i], stage.parts[i], s.grid, false)
				}
				if err == nil && to != out {
					_, err = d.Reshape(ctx, to.parts[i], s.whole.spec.Shape, Into(out.parts[i]))
				}
			}
			return err
		}, nil
	})
}

// staging returns the exchanged tensor and the tensor of rows, if there is one. Later exchanges
// with the same result use them again.
func (m *Mesh) staging(ctx context.Context, out *MeshTensor, s *slicing) (stage, rows *MeshTensor, err error) {
	if out.staging == nil {
		out.staging = map[kind]*MeshTensor{}
	}
	of := func(s *Spec) *MeshTensor {
		t := out.staging[s.kind()]
		if t == nil && err == nil {
			if t, err = m.create(ctx, *s); err == nil {
				out.staging[s.kind()] = t
			}
		}
		return t
	}
	if stage = of(&s.stage); s.rows != nil {
		rows = of(s.rows)
	}
	return stage, rows, err
}

func (d *Device) rearrangeInto(ctx context.Context, name, class string, out, a *Tensor, m arrangement) error {
	_, err := d.do(ctx, "ttnn::"+name, argList{a}, func(c *call) (*Tensor, error) {
		return c.arrange(name, class, argList{a, out.spec.Memory}, out.spec, m, a)
	}, Into(out))
	return err
}

// regroup copies the pages of a grid (see slicing.grid) with its slices one after the other to a
// tensor with the pages before the dimension first, or back.
func (d *Device) regroup(ctx context.Context, out, a *Tensor, g [3]int, back bool) error {
	if out == a {
		return nil // the order is the same
	}
	outer, inner, row := g[0], g[1], g[2]
	if back {
		outer, inner = inner, outer
	}
	_, err := d.do(ctx, "ttnn::to_memory_config", argList{a, out.spec.Memory}, func(c *call) (*Tensor, error) {
		return c.deviceOp("copy", "CopyDeviceOperation", argList{a, out.spec.Memory}, out.spec, func(*Tensor) error {
			return c.run(c.pages(strided(0, [][2]int{{outer, row}, {inner, outer * row}, {row, 1}}), out, a))
		})
	}, Into(out))
	return err
}

func (t *MeshTensor) result() Spec {
	s := t.Spec()
	s.Memory = Interleaved(allocator.DRAM)
	return s
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
		if t.buf == nil || t.parts[0].empty() {
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

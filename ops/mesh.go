package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/ops/graph"
)

// Mesh runs operations on the chips of a mesh. A [MeshTensor] has a part on each chip, at one address. Operations on one
// chip are those of its [Device], with the parts: put results [Into] the parts of a tensor of the mesh, on all chips in the
// same order, so that memory stays in step.
//
//	sum, err := m.Empty(ctx, spec)
//	for i := range m.Size() {
//		_, err = m.Chip(i).Add(ctx, a.On(i), b.On(i), ops.Into(sum.On(i)))
//	}
//	all, err := m.AllReduce(ctx, sum)
type Mesh struct {
	m     *mesh.Mesh
	chips []*Device
	links *mesh.Links

	mu    sync.Mutex
	execs map[*MeshTensor]*mesh.Executable // collectives, by the tensor that they work on
}

// NewMesh makes operations run on the chips of a mesh, on their queues 0. One core of each chip drives the links for
// collectives. Chips are numbered in the order of mesh.Mesh.Chips, also in graphs. Options are for the operations of each
// chip, but those that number it or choose its queue. Observers hear of what all chips do together on chip 0.
func NewMesh(ctx context.Context, m *mesh.Mesh, core reprise.Core, opts ...Option) (*Mesh, error) {
	links, err := m.NewLinks(ctx, core)
	if err != nil {
		return nil, fmt.Errorf("ops: new mesh: %w", err)
	}
	out := &Mesh{m: m, links: links, execs: map[*MeshTensor]*mesh.Executable{}}
	for i, c := range m.Chips() {
		out.chips = append(out.chips, New(c.Device, append(slices.Clip(opts), WithQueue(0), WithID(i))...))
	}
	return out, nil
}

// Close empties the program caches and gives the links up. Tensors stay allocated; they end with the mesh.
func (m *Mesh) Close(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for t, x := range m.execs {
		errs = append(errs, x.Close(ctx))
		delete(m.execs, t)
	}
	for _, d := range m.chips {
		errs = append(errs, d.Close(ctx))
	}
	return errors.Join(append(errs, m.links.Close(ctx))...)
}

// Size returns the number of chips.
func (m *Mesh) Size() int { return len(m.chips) }

// Chip returns the operations of a chip.
func (m *Mesh) Chip(i int) *Device { return m.chips[i] }

// MeshTensor is a tensor on each chip of a mesh, of the same kind and at the same address.
type MeshTensor struct {
	m     *Mesh
	buf   *mesh.Buffer // nil if it is only planned
	parts []*Tensor
}

// Spec returns what each chip's part is.
func (t *MeshTensor) Spec() Spec { return t.parts[0].Spec() }

// On returns a chip's part. It is deallocated with the others only.
func (t *MeshTensor) On(i int) *Tensor { return t.parts[i] }

// Empty allocates a tensor on all chips.
func (m *Mesh) Empty(ctx context.Context, s Spec) (t *MeshTensor, err error) {
	err = m.do(ctx, "ttnn::empty", func(i int) []graph.Arg { return specArgs(s, i) }, func(ctx context.Context) ([]*Tensor, error) {
		if t, err = m.create(ctx, s); err != nil {
			return nil, err
		}
		return t.parts, nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// create allocates a tensor inside of an operation.
func (m *Mesh) create(ctx context.Context, s Spec) (*MeshTensor, error) {
	g, err := s.measure()
	if err != nil {
		return nil, err
	}
	t := &MeshTensor{m: m}
	err = m.function(ctx, m.chips[0].creation(), func(i int) []graph.Arg { return specArgs(s, i) }, func(context.Context) ([]*Tensor, error) {
		for _, d := range m.chips { // the device's Observers are told inside
			d.mu.Lock()
			d.next++
			t.parts = append(t.parts, &Tensor{d: d, id: d.next, geo: g})
			d.mu.Unlock()
		}
		cfg := g.config(fmt.Sprintf("tensor %d", t.parts[0].id))
		if m.chips[0].live.blocked() {
			for _, p := range t.parts {
				var err error
				if p.plan, err = p.d.live.allocate(p.d, g, cfg); err != nil {
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
			p.peers = t.parts
		}
		return t.parts, nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ToDevice allocates a tensor and copies host tensors of one kind to it: one for each chip, or one for all.
func (m *Mesh) ToDevice(ctx context.Context, hs []*Host, l Layout, c MemoryConfig) (*MeshTensor, error) {
	if len(hs) != 1 && len(hs) != len(m.chips) {
		return nil, fmt.Errorf("ops: ttnn::to_device: %w: %d host tensors for %d chips: one, or as many as chips", ErrShape, len(hs), len(m.chips))
	}
	for _, h := range hs {
		if err := h.check(); err != nil {
			return nil, fmt.Errorf("ops: ttnn::to_device: %w", err)
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

// ToHost copies a tensor to the host, each chip's part apart.
func (m *Mesh) ToHost(ctx context.Context, t *MeshTensor) ([]*Host, error) {
	if err := t.of(m); err != nil {
		return nil, fmt.Errorf("ops: ttnn::from_device: %w", err)
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

// Deallocate gives the tensor's memory back on all chips.
func (m *Mesh) Deallocate(ctx context.Context, t *MeshTensor) error {
	if err := t.of(m); err != nil {
		return fmt.Errorf("ops: deallocate: %w", err)
	}
	m.mu.Lock()
	x := m.execs[t]
	delete(m.execs, t)
	m.mu.Unlock()
	var errs []error
	if x != nil {
		errs = append(errs, x.Close(ctx))
	}
	for i, d := range m.chips {
		errs = append(errs, d.Deallocate(t.parts[i]))
	}
	return errors.Join(errs...)
}

// AllReduce adds a tensor's parts up and gives every chip the sum. Integers of 32 bits wrap around; floats are rounded after
// each addition, in the order that mesh.Links describes. The result is interleaved in DRAM; its pages are at most 4096 B and a
// multiple of 4.
func (m *Mesh) AllReduce(ctx context.Context, t *MeshTensor) (*MeshTensor, error) {
	const name = "ttnn::all_reduce"
	if err := t.of(m); err != nil {
		return nil, fmt.Errorf("ops: %s: %w", name, err)
	}
	s := t.result()
	how, err := adding(s.DType)
	if err != nil {
		return nil, fmt.Errorf("ops: %s: %w", name, err)
	}
	return m.collective(ctx, name, t, s, func(ctx context.Context, d *Device, from, into *Tensor) error {
		_, err := d.ToMemoryConfig(ctx, from, s.Memory, Into(into))
		return err
	}, func(b *mesh.Buffer) (*mesh.Executable, error) { return m.links.AllReduce(ctx, b, how) })
}

// adding is how links add up numbers of a type.
func adding(t DataType) (mesh.Combine, error) {
	switch t {
	case UInt32, Int32:
		return mesh.SumInt32, nil
	case BFloat16:
		return mesh.SumBFloat16, nil
	case Float32:
		return mesh.SumFloat32, nil
	}
	return mesh.Replace, fmt.Errorf("%w: %v: only numbers of 32 bits and bfloat16 are added up", ErrDataType, t)
}

// ReduceScatter adds a tensor's parts up and gives every chip its slice of the sum: as many as there are chips, along the
// first dimension, in the order of mesh.Links.Line. It adds as [Mesh.AllReduce] does. The result is interleaved in DRAM; its
// pages are at most 4096 B and a multiple of 4, and no page is half one chip's: tiles want whole tiles.
func (m *Mesh) ReduceScatter(ctx context.Context, t *MeshTensor) (*MeshTensor, error) {
	const name = "ttnn::reduce_scatter"
	if err := t.of(m); err != nil {
		return nil, fmt.Errorf("ops: %s: %w", name, err)
	}
	whole, s := t.result(), t.result()
	how, err := adding(s.DType)
	if err != nil {
		return nil, fmt.Errorf("ops: %s: %w", name, err)
	}
	n := len(m.chips)
	all, err := whole.measure()
	if err != nil {
		return nil, fmt.Errorf("ops: %s: %w", name, err)
	}
	s.Shape[0] /= n
	if g, err := s.measure(); err != nil || s.Shape[0]*n != whole.Shape[0] || g.pages*n != all.pages || len(s.Shape) == 1 {
		return nil, fmt.Errorf("ops: %s: %w: %v over %d chips: the slices aren't equal, or don't have pages of their own in the whole", name, ErrShape, whole.Shape, n)
	}
	load := func(b *mesh.Buffer) (*mesh.Executable, error) { return m.links.ReduceScatter(ctx, b, how) }
	var out *MeshTensor
	err = m.do(ctx, name, func(i int) []graph.Arg { return []graph.Arg{t.parts[i].arg()} }, func(ctx context.Context) (parts []*Tensor, err error) {
		// The links work in place, and leave the other chips' slices undefined.
		var sums *MeshTensor
		if sums, err = m.create(ctx, whole); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, m.Deallocate(ctx, sums)) }()
		if out, err = m.create(ctx, s); err != nil {
			return nil, err
		}
		for i, d := range m.chips {
			if _, err = d.ToMemoryConfig(ctx, t.parts[i], whole.Memory, Into(sums.parts[i])); err != nil {
				return nil, errors.Join(err, m.Deallocate(ctx, out))
			}
		}
		if sums.buf != nil {
			if err = m.exchange(ctx, sums, load); err != nil {
				return nil, errors.Join(err, m.Deallocate(ctx, out))
			}
		}
		for i, place := range m.places() {
			begin, end := make([]int, len(s.Shape)), slices.Clone(s.Shape)
			begin[0], end[0] = place*s.Shape[0], (place+1)*s.Shape[0]
			if _, err = m.chips[i].Slice(ctx, sums.parts[i], begin, end, Into(out.parts[i])); err != nil {
				return nil, errors.Join(err, m.Deallocate(ctx, out))
			}
		}
		return out.parts, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// places returns where in the line each chip is.
func (m *Mesh) places() []int {
	chips, out := m.m.Chips(), make([]int, len(m.chips))
	for i, c := range m.links.Line() {
		out[slices.Index(chips, c)] = i
	}
	return out
}

// AllGather gives every chip the parts of all chips, behind each other along the first dimension, in the order of
// mesh.Links.Line. The result is interleaved in DRAM; its pages are at most 4096 B and a multiple of 4, and no page is half
// one chip's: tiles want whole tiles.
func (m *Mesh) AllGather(ctx context.Context, t *MeshTensor) (*MeshTensor, error) {
	const name = "ttnn::all_gather"
	if err := t.of(m); err != nil {
		return nil, fmt.Errorf("ops: %s: %w", name, err)
	}
	s := t.result()
	s.Shape[0] *= len(m.chips)
	if g, err := s.measure(); err != nil || g.pages != len(m.chips)*t.parts[0].geo.pages || len(s.Shape) == 1 {
		return nil, fmt.Errorf("ops: %s: %w: %v in %v: the parts don't have pages of their own in the whole", name, ErrShape, t.parts[0].geo.spec.Shape, s.Shape)
	}
	times := slices.Repeat([]int{1}, len(s.Shape))
	times[0] = len(m.chips)
	// Every chip has its own part in all places, of which the collective replaces all but one.
	return m.collective(ctx, name, t, s, func(ctx context.Context, d *Device, from, into *Tensor) error {
		_, err := d.Repeat(ctx, from, times, Into(into))
		return err
	}, func(b *mesh.Buffer) (*mesh.Executable, error) { return m.links.AllGather(ctx, b) })
}

// of says whether the tensor is one of the mesh's.
func (t *MeshTensor) of(m *Mesh) error {
	switch {
	case t == nil:
		return fmt.Errorf("%w: no tensor: it is nil", ErrShape)
	case t.m != m:
		return ErrWrongDevice
	}
	return nil
}

// result is what a collective makes of a part: links carry pages of interleaved DRAM.
func (t *MeshTensor) result() Spec {
	s := t.Spec()
	s.Memory = Interleaved(reprise.DRAM)
	return s
}

// collective makes a result: fill puts on each chip what it begins with there, and load makes the program of all chips.
func (m *Mesh) collective(ctx context.Context, name string, t *MeshTensor, s Spec, fill func(ctx context.Context, d *Device, from, into *Tensor) error, load func(*mesh.Buffer) (*mesh.Executable, error)) (*MeshTensor, error) {
	var out *MeshTensor
	err := m.do(ctx, name, func(i int) []graph.Arg { return []graph.Arg{t.parts[i].arg()} }, func(ctx context.Context) ([]*Tensor, error) {
		var err error
		if out, err = m.create(ctx, s); err != nil {
			return nil, err
		}
		for i, d := range m.chips {
			if err = fill(ctx, d, t.parts[i], out.parts[i]); err != nil {
				return nil, errors.Join(err, m.Deallocate(ctx, out))
			}
		}
		if out.buf == nil {
			return out.parts, nil
		}
		if err = m.exchange(ctx, out, load); err != nil {
			return nil, errors.Join(err, m.Deallocate(ctx, out))
		}
		return out.parts, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// exchange runs a collective on a tensor of all chips. Its program stays loaded as long as the tensor lives.
func (m *Mesh) exchange(ctx context.Context, t *MeshTensor, load func(*mesh.Buffer) (*mesh.Executable, error)) error {
	x, err := load(t.buf)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.execs[t] = x
	m.mu.Unlock()
	for i, c := range m.m.Chips() {
		if part := x.On(c); part != nil {
			m.chips[i].live.run(i, part)
		}
	}
	return m.m.Queue(0).Run(context.WithValue(ctx, ours{}, true), x)
}

// function is a call that the graphs of all chips show, and of which chip 0's Observers hear.
func (m *Mesh) function(ctx context.Context, name string, args func(i int) []graph.Arg, f func(context.Context) ([]*Tensor, error)) error {
	end := func(error) {}
	if first := m.chips[0]; len(first.watch) > 0 {
		ctx, end = first.observe(ctx, name, words(args(0)))
	}
	for i, d := range m.chips {
		if d.live.active() {
			d.live.begin(name, args(i))
		}
	}
	out, err := f(ctx)
	end(err)
	var h *reprise.HangError
	for i, d := range m.chips {
		switch {
		case !d.live.active() || errors.As(err, &h):
		case err != nil:
			d.live.end()
		default:
			d.live.end(out[i].graph())
		}
	}
	return err
}

// do is a function that the user calls.
func (m *Mesh) do(ctx context.Context, name string, args func(i int) []graph.Arg, f func(context.Context) ([]*Tensor, error)) error {
	err := m.function(ctx, name, args, func(ctx context.Context) ([]*Tensor, error) {
		out, err := f(ctx)
		if err != nil {
			for _, d := range m.chips {
				d.live.failed(name, err)
			}
		}
		return out, err
	})
	if err != nil {
		return fmt.Errorf("ops: %s: %w", name, err)
	}
	return nil
}

// MeshCapture records what happens on a mesh as a graph.
type MeshCapture struct{ chips []*Capture }

// BeginCapture starts to record what happens on the mesh. The graph is that of chip 0, with the addresses of tensors on all
// chips; what is done on other chips alone isn't in it. See [Device.BeginCapture].
func (m *Mesh) BeginCapture(cfg graph.Config) *MeshCapture {
	c := &MeshCapture{}
	for _, d := range m.chips {
		c.chips = append(c.chips, d.BeginCapture(cfg))
		c.chips[0].rec.Device(d.describe())
	}
	return c
}

// End ends the capture and returns its report.
func (c *MeshCapture) End() (*graph.Report, error) {
	var r *graph.Report
	var errs []error
	for _, chip := range slices.Backward(c.chips) {
		var err error
		r, err = chip.End()
		errs = append(errs, err)
	}
	return r, errors.Join(errs...)
}

package ops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/tracebuf"
)

// ErrNoTensor is in errors about names of tensors that a model doesn't have.
var ErrNoTensor = errors.New("the model has no such tensor")

type describedTensor struct {
	*Tensor
	of *tracebuf.Tensor
}

// LoadedModel returns a trace that was loaded from a file with its tensors, such as those that
// `reprise ttnn record` found in a program of TT-NN under the names of its variables. Fill the
// inputs with [Device.CopyHostToDevice], and read the outputs with [Device.ToHost]. The file may
// leave weights to a safetensors file: see [Model.LoadWeights].
//
// Tensors of types that this package doesn't have, those in shards of several per core, and those
// on other devices of the trace are left out.
func (d *Device) LoadedModel(t *reprise.Trace) (*Model, error) {
	m := &Model{Trace: t, d: d, named: map[string]describedTensor{}}
	buffers := t.Buffers()
	for i, b := range t.FileBuffers() {
		if buffers[i].Device() != d.dev {
			continue
		}
		s, err := SpecOf(&b)
		if err != nil {
			continue
		}
		t, err := d.fromBuffer(buffers[i], s)
		if errors.Is(err, ErrMemory) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ops: loaded model: tensor %q: %w", b.Name, err)
		}
		m.named[b.Name] = describedTensor{t, b.Tensor}
		if b.Tensor.Input {
			m.inputs = append(m.inputs, b.Name)
		}
		if b.Output {
			m.outputs = append(m.outputs, t)
			m.results = append(m.results, b.Name)
		}
	}
	return m, nil
}

// SpecOf returns the spec of the tensor in a buffer of a trace's file. The error wraps
// [ErrDataType], also if the file describes no tensor, [ErrShape] or [ErrMemory].
func SpecOf(b *tracebuf.Buffer) (Spec, error) {
	s, t := Spec{Layout: RowMajor, Memory: MemoryConfig{Kind: allocator.Kind(b.Kind)}}, b.Tensor
	if t == nil {
		return s, typeError("the file describes no tensor")
	}
	i := slices.Index(dataTypeNames[:], t.DType)
	if i < 0 {
		return s, typeError("%.40q", t.DType)
	}
	if s.Shape, s.DType = slices.Clone(t.Shape), DataType(i); t.Tiles {
		s.Layout = Tile
	}
	if h := b.Sharding; h != nil && len(h.Shard) == 2 {
		page := [2]int{1, b.PageSize / s.DType.Size()}
		if t.Tiles {
			page = [2]int{tileSize, tileSize}
		}
		s.Memory.Layout = h.Layout
		s.Memory.Shard = &ShardSpec{Cores: h.Cores, Shape: [2]int{h.Shard[0] * page[0], h.Shard[1] * page[1]},
			Columns: h.Orientation == allocator.ColMajor}
	} else if h != nil {
		return s, memoryError("shards of rank %d", len(h.Shard))
	}
	_, err := s.geometry()
	return s, err
}

// Inputs returns the names of the tensors that the recorded program wrote between replays.
func (m *Model) Inputs() []string { return slices.Clone(m.inputs) }

// Results returns the names of the tensors that the recorded program read after replays, in the
// order of Outputs.
func (m *Model) Results() []string { return slices.Clone(m.results) }

// Tensor returns a tensor of a loaded model by its name. The error wraps [ErrNoTensor].
func (m *Model) Tensor(name string) (*Tensor, error) {
	if t, ok := m.named[name]; ok {
		return t.Tensor, nil
	}
	return nil, fmt.Errorf("ops: %w: %q: it has %s", ErrNoTensor, name, strings.Join(slices.Sorted(maps.Keys(m.named)), ", "))
}

// Set fills a tensor of a loaded model with values in row-major order. The error is that of
// [Model.Tensor], [NewHost] or [Device.CopyHostToDevice].
func Set[T Number](ctx context.Context, m *Model, name string, values []T) error {
	t, err := m.Tensor(name)
	if err != nil {
		return err
	}
	h, err := NewHost(t.spec.Shape, t.spec.DType, values)
	if err != nil {
		return err
	}
	return m.d.CopyHostToDevice(ctx, h, t)
}

// Missing returns the names of the tensors of a safetensors file that LoadWeights needs, in
// alphabetical order.
func (m *Model) Missing() []string {
	var out []string
	for _, t := range m.named {
		if t.of.Weight != "" {
			out = append(out, t.of.Weight)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// LoadWeights fills the tensors that the file leaves to a safetensors file, such as one with newer
// weights of the same shapes. The function is safetensors.File.Tensor or alike. The error is that
// of the function, or wraps [ErrShape] or [ErrDataType].
func (m *Model) LoadWeights(ctx context.Context, tensor func(name string) (*Host, error)) error {
	for _, name := range slices.Sorted(maps.Keys(m.named)) {
		t := m.named[name]
		if t.of.Weight == "" {
			continue
		}
		h, err := tensor(t.of.Weight)
		if err == nil {
			h, err = h.as(t.spec, t.of.Transposed)
		}
		if err == nil {
			err = m.d.CopyHostToDevice(ctx, h, t.Tensor)
		}
		if err != nil {
			return fmt.Errorf("ops: weights of %q from %q: %w", name, t.of.Weight, err)
		}
	}
	return nil
}

// WeightOf returns the content of a buffer that a spec describes, made of a weight, whose last two
// dimensions may change places: a model in PyTorch multiplies by transposed weights. The error
// wraps [ErrShape] or [ErrDataType].
func WeightOf(h *Host, s Spec, transposed bool) ([]byte, error) {
	h, err := h.as(s, transposed)
	if err != nil {
		return nil, err
	}
	return s.Encode(h)
}

// as returns a tensor in another shape and type.
func (h *Host) as(s Spec, transposed bool) (*Host, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	n, err := volume(s.Shape)
	if err == nil && n*h.DType.Size() != len(h.Data) {
		err = shapeError("%v are not the elements of %v", h.Shape, s.Shape)
	}
	if err != nil {
		return nil, err
	}
	out := &Host{Shape: h.Shape, DType: h.DType, Data: h.Data}
	if k := len(h.Shape); transposed {
		if k < 2 {
			return nil, shapeError("%v has no two dimensions to transpose", h.Shape)
		}
		rows, cols, size := h.Shape[k-2], h.Shape[k-1], h.DType.Size()
		out.Data = make([]byte, len(h.Data))
		for i := range n {
			m, r, c := i/(rows*cols), i/cols%rows, i%cols
			copy(out.Data[((m*cols+c)*rows+r)*size:][:size], h.Data[i*size:])
		}
	}
	out.Shape = s.Shape
	if out.DType == s.DType {
		return out, nil
	}
	return out.Convert(s.DType)
}

// Model is a function of tensors as a trace, with the memory of all tensors that it makes.
type Model struct {
	*reprise.Trace
	outputs []*Tensor
	made    []*Tensor // in the function's first run, in order
	again   int       // how many of these the second run has made

	// Of a model that was loaded from a file; named are its tensors.
	d               *Device
	inputs, results []string
	named           map[string]describedTensor
}

type modelOf struct{ d *Device }

// CaptureModel calls a function twice with a context that its operations need: first they run, load
// their programs and allocate their results; then they are recorded, and the same results go to the
// same memory. So the function needs no [Into]. It has to call the same operations each time, and
// take its inputs and weights from tensors that exist before, such as those of [Device.ToDevice],
// which [Device.CopyHostToDevice] fills between replays.
//
// What the function deallocates stays allocated until [Model.Release], as everything that it makes.
// An error is that of the function, or of [Device.Capture]; it wraps reprise.ErrInCapture if the
// second run makes other tensors.
func (d *Device) CaptureModel(ctx context.Context, name string, f func(ctx context.Context) ([]*Tensor, error)) (*Model, error) {
	m := &Model{}
	ctx = context.WithValue(ctx, modelOf{d}, m)
	_, err := f(ctx)
	if err == nil {
		m.Trace, err = d.Capture(ctx, name, func(ctx context.Context) error {
			m.outputs, err = f(ctx)
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(err, m.free())
	}
	return m, nil
}

// Outputs returns what the function returned, or the recorded program read: tensors that hold the
// results of the last replay.
func (m *Model) Outputs() []*Tensor { return m.outputs }

// Release releases the trace and all tensors that the function made.
func (m *Model) Release(ctx context.Context) error {
	if err := m.Trace.Release(ctx); err != nil {
		return err
	}
	return m.free()
}

func (m *Model) free() error {
	var errs []error
	for _, t := range m.made {
		errs = append(errs, t.buf.Release())
	}
	m.made = nil
	return errors.Join(errs...)
}

// rehearsal runs a model's operations for the first time.
type rehearsal struct {
	eager
	m *Model
}

func (r rehearsal) allocate(t *Tensor, cfg reprise.BufferConfig) error {
	if err := r.eager.allocate(t, cfg); err != nil {
		return err
	}
	t.borrowed = true
	r.m.made = append(r.m.made, t)
	return nil
}

// keep gives the last tensor, which others than the model need, to the Device.
func (r rehearsal) keep(k scratchKey, t *Tensor) {
	t.borrowed = false
	r.m.made = r.m.made[:len(r.m.made)-1]
	r.eager.keep(k, t)
}

// performance records a model's operations.
type performance struct {
	traced
	m *Model
}

func (r performance) allocate(t *Tensor, _ reprise.BufferConfig) error {
	n := r.m.again
	if n == len(r.m.made) || r.m.made[n].kind != t.kind {
		return r.refuse(fmt.Errorf("%w: the function's second run makes %v as tensor %d, unlike the first: call the same operations",
			reprise.ErrInCapture, t.spec, n))
	}
	t.buf, t.borrowed = r.m.made[n].buf, true
	r.m.again++
	return nil
}

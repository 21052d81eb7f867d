package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/ops/graph"
)

// Mesh runs operations on the chips of a mesh. A [MeshTensor] has a part on each chip, all at the
// same address. Operations of one chip run on its [Device], with the parts. Their results should go
// [Into] the parts of a mesh tensor: results that single chips allocate take addresses that are
// then not free on all chips.
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
	execs map[collective]*mesh.Executable
}

// collective is an exchange between the parts of a tensor.
type collective struct {
	name string
	of   *MeshTensor
}

// NewMesh returns a Mesh that runs operations on queue 0 of each chip of m, in the order of
// mesh.Mesh.Chips. One worker core of each chip drives the links for collectives (see mesh.Links),
// of which chip 0's Observers are notified. The options apply to each chip, except WithID and
// WithQueue. All chips must be this host's (ErrOtherHost): take a submesh of a mesh across hosts.
func NewMesh(ctx context.Context, m *mesh.Mesh, core chip.Core, opts ...Option) (*Mesh, error) {
	links, err := m.NewLinks(ctx, core)
	if err != nil {
		return nil, fmt.Errorf("ops: new mesh: %w", err)
	}
	// after NewLinks, in which the hosts of the mesh wait for each other
	if here, all := len(m.Here()), m.Size(); here < all {
		err := fmt.Errorf("%w: %d of the %d chips of %v are here: give a submesh of these", ErrOtherHost, here, all, m)
		return nil, fmt.Errorf("ops: new mesh: %w", errors.Join(err, links.Release(ctx)))
	}
	out := &Mesh{m: m, links: links, execs: map[collective]*mesh.Executable{}}
	for i, c := range m.Chips() {
		out.chips = append(out.chips, New(c.Device, append(slices.Clip(opts), WithQueue(0), WithID(i))...))
	}
	return out, nil
}

// Release unloads all programs and releases the links; tensors stay allocated.
func (m *Mesh) Release(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for c, x := range m.execs {
		errs = append(errs, x.Release(ctx))
		delete(m.execs, c)
	}
	for _, d := range m.chips {
		errs = append(errs, d.Release(ctx))
	}
	return errors.Join(append(errs, m.links.Release(ctx))...)
}

type meshRecordingOf struct{ m *Mesh }

// Capture records the operations of all chips, and collectives, that are called with the context of
// the function record as a trace of queue 0: see [Device.Capture]. Collectives must have run before
// with the same result tensor ([IntoMesh]).
func (m *Mesh) Capture(ctx context.Context, name string, record func(ctx context.Context) error) (*reprise.Trace, error) {
	return m.m.Queue(0).Capture(ctx, name, func(ctx context.Context, r *mesh.Recorder) error {
		all := record
		for i, c := range m.m.Chips() {
			rest := all
			all = func(ctx context.Context) error { return m.chips[i].Record(ctx, r.On(c), rest) }
		}
		return all(context.WithValue(ctx, meshRecordingOf{m}, r))
	})
}

// Size returns the number of chips.
func (m *Mesh) Size() int { return len(m.chips) }

// Chip returns the Device of chip i.
func (m *Mesh) Chip(i int) *Device { return m.chips[i] }

// function runs a function, and records it in the graphs of all chips and for chip 0's Observers.
func (m *Mesh) function(ctx context.Context, name string, args func(i int) argList, f func(context.Context) ([]*Tensor, error)) error {
	first := m.chips[0]
	ctx, end := first.observers.begin(ctx, first.id, name, args(0).texts)
	for i, d := range m.chips {
		if d.captures.active() {
			d.captures.begin(name, args(i).graph())
		}
	}
	out, err := f(ctx)
	end(err)
	for i, d := range m.chips {
		switch {
		case !d.captures.active():
		case err != nil:
			d.captures.end(err)
		default:
			d.captures.end(nil, out[i].graph())
		}
	}
	return err
}

func (m *Mesh) make(ctx context.Context, name string, args func(i int) argList,
	f func(context.Context) (*MeshTensor, error)) (out *MeshTensor, err error) {
	err = m.function(ctx, name, args, func(ctx context.Context) ([]*Tensor, error) {
		if out, err = f(ctx); err != nil {
			for _, d := range m.chips {
				d.captures.failed(name, err)
			}
			return nil, err
		}
		return out.parts, nil
	})
	if err != nil {
		return nil, &opError{name, err}
	}
	return out, nil
}

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

// MeshCapture records operations on a mesh as a graph.
type MeshCapture struct{ chips []*Capture } // of each chip; chip 0's describes all

// BeginCapture starts to record operations on the mesh, as [Device.BeginCapture] does on a device.
// The graph is that of chip 0, with the buffers, circular buffers and addresses of tensors of all
// chips, but without operations of other chips alone.
func (m *Mesh) BeginCapture(cfg graph.Config) *MeshCapture {
	c := &MeshCapture{}
	var first *graph.Recorder
	for i, d := range m.chips {
		c.chips = append(c.chips, d.captures.start(cfg, &d.mu, first))
		if i == 0 {
			first = c.chips[0].rec
		} else {
			first.Device(d.captures.describe())
		}
	}
	first.Cluster(m.clusterDescriptor(), m.meshMapping())
	return c
}

// inFunctions assigns programs of another chip to the functions of the same programs on chip 0, in
// order of start, or to none.
func inFunctions(runs, first []graph.ProgramRun) []graph.ProgramRun {
	for i := range runs {
		run := &runs[i]
		run.Function = -1
		at := slices.IndexFunc(first, func(o graph.ProgramRun) bool {
			return o.Name == run.Name && o.Queue == run.Queue && o.Trace == run.Trace && o.Replay == run.Replay
		})
		if at >= 0 {
			run.Function, first = first[at].Function, first[at+1:]
		}
	}
	return runs
}

// End ends the capture and returns its report, with times in cycles of each chip's own clock.
func (c *MeshCapture) End() (*graph.Report, error) {
	var r *graph.Report
	var errs []error
	var others []*graph.Report
	for i, chip := range slices.Backward(c.chips) {
		var err error
		r, err = chip.End()
		errs = append(errs, err)
		if i > 0 && r != nil {
			others = append(others, r)
		}
	}
	if r != nil {
		first := r.Programs
		for _, o := range slices.Backward(others) {
			r.Programs = append(r.Programs, inFunctions(o.Programs, first)...)
			r.Zones = append(r.Zones, o.Zones...)
		}
	}
	return r, errors.Join(errs...)
}

// Record returns [Capture.Record] of a chip, as a handler for print.Listen on that chip. Chips
// count from 0, by rows; the handler of another number is nil.
func (c *MeshCapture) Record(chip int) print.Handler {
	if chip < 0 || chip >= len(c.chips) {
		return nil
	}
	return c.chips[chip].Record
}

// clusterDescriptor returns the chips of the mesh and the links between them as YAML, with the keys
// of tt-umd's cluster descriptor that the vendor's visualizer reads.
func (m *Mesh) clusterDescriptor() string {
	chips, number := m.m.Chips(), map[int]int{} // by index in the graph of the machine
	for i, c := range chips {
		number[m.m.InGraph(c)] = i
	}
	text := m.section("arch", func(i int) string { return fmt.Sprintf("%d: %s", i, archName(m.chips[i].dev.Arch())) }) +
		m.meshMapping() +
		m.section("chip_unique_ids", func(i int) string { return fmt.Sprintf("%d: %d", i, i+1) }) +
		m.section("chips_with_mmio", func(i int) string {
			if chips[i].Remote {
				return ""
			}
			return fmt.Sprintf("- %d: %d", i, i)
		})
	links := ""
	if g := m.m.Graph(); g != nil {
		for _, l := range g.Links {
			i, ok := number[l.A.Chip]
			k, too := number[l.B.Chip]
			if ok && too {
				links += fmt.Sprintf("\n  - [{chip: %d, chan: %d}, {chip: %d, chan: %d}]", i, l.A.Channel, k, l.B.Channel)
			}
		}
	}
	return text + "ethernet_connections:" + cmp.Or(links, " []") + "\n"
}

// section returns a key of YAML with a line for each chip, but for empty ones.
func (m *Mesh) section(name string, line func(i int) string) string {
	text := name + ":\n"
	for i := range m.chips {
		if s := line(i); s != "" {
			text += "  " + s + "\n"
		}
	}
	return text
}

func (m *Mesh) meshMapping() string {
	chips := m.m.Chips()
	return m.section("chips", func(i int) string { return fmt.Sprintf("%d: %s", i, place(chips[i].Coord)) })
}

// place returns a mesh coordinate as a YAML list: column, row, rack 0, shelf 0.
func place(coord []int) string {
	yx := append([]int{0, 0}, coord...)
	return fmt.Sprintf("[%d, %d, 0, 0]", yx[len(yx)-1], yx[len(yx)-2])
}

package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/mesh"
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

package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
)

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

package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
)

// Part is a program for the chips of a range.
type Part struct {
	Range Range // the zero Range: all chips
	// Program returns the program of one of this host's chips in the range, with its own buffers
	// (Buffer.On). It may return the same *reprise.Program for all.
	Program func(c *Chip) (*reprise.Program, error)
}

// Same makes a part of one program for all chips of a range, with the given buffers instead of its
// own.
func Same(r Range, p *reprise.Program, buffers ...*Buffer) Part {
	return Part{Range: r, Program: func(c *Chip) (*reprise.Program, error) {
		if p == nil {
			return nil, errors.New("no program: it is nil")
		}
		own := *p
		own.Buffers = nil
		for _, b := range buffers {
			on := b.On(c)
			if on == nil {
				return nil, fmt.Errorf("buffer %q: %w", b.Name(), ErrWrongMesh)
			}
			own.Buffers = append(own.Buffers, on)
		}
		return &own, nil
	}}
}

// Executable is a program that is loaded on chips of a mesh.
type Executable struct {
	m    *Mesh
	name string
	xs   []*reprise.Executable
}

// Load loads a program with at most one part per chip. The kernels of all parts have the same
// address and take as much memory as the largest part. The error is an *Error, or a *RangeError for
// overlapping or invalid ranges.
func (m *Mesh) Load(ctx context.Context, name string, parts ...Part) (*Executable, error) {
	if err := m.usable("load"); err != nil {
		return nil, err
	}
	fail := func(err error) error { return fmt.Errorf("mesh: load program %q: %w", name, err) }
	x := &Executable{m: m, name: name, xs: make([]*reprise.Executable, len(m.chips))}
	programs, taken := make([]*reprise.Program, len(m.chips)), make([]bool, len(m.chips))
	for _, part := range parts {
		r, err := part.Range.in(m.shape)
		if err != nil {
			return nil, fail(err)
		}
		if part.Program == nil {
			return nil, fail(errors.New("a part has no function that gives programs"))
		}
		for c := range r.Coords() {
			i, _ := m.shape.Index(c)
			if taken[i] {
				return nil, fail(&RangeError{Range: r, Shape: m.shape, Why: fmt.Sprintf("another part has chip %v already", c)})
			}
			taken[i] = true
			if m.chips[i].Device == nil {
				continue
			}
			if programs[i], err = part.Program(m.chips[i]); err == nil && programs[i] == nil {
				err = errors.New("the part's function returned none")
			}
			if err != nil {
				return nil, fail(fmt.Errorf("chip %v: %w", c, err))
			}
		}
	}
	var ds []*reprise.Device
	var ps []*reprise.Program
	var at []int
	for i, p := range programs {
		if p != nil {
			ds, ps, at = append(ds, m.chips[i].Device), append(ps, p), append(at, i)
		}
	}
	switch {
	case !slices.Contains(taken, true):
		return nil, fail(errors.New("it has no parts"))
	case len(at) == 0:
		return x, nil
	}
	xs, err := reprise.LoadAll(ctx, ds, ps)
	if err != nil {
		return nil, fail(err)
	}
	for i, n := range at {
		x.xs[n] = xs[i]
	}
	return x, nil
}

// Name returns the program's name.
func (x *Executable) Name() string { return x.name }

// On returns the executable of a chip; nil if there is none.
func (x *Executable) On(c *Chip) *reprise.Executable { return on(x.m, c, x.xs) }

// Release releases the kernels' memory and the hold on buffers on all chips.
func (x *Executable) Release(ctx context.Context) error {
	return x.m.each(ctx, fmt.Sprintf("release executable %q", x.name), func(i int) error {
		if x.xs[i] == nil {
			return nil
		}
		return x.xs[i].Release(ctx)
	})
}

func (x *Executable) of(m *Mesh) error {
	switch {
	case x == nil:
		return errors.New("no executable: it is nil")
	case x.m != m:
		return fmt.Errorf("executable %q: %w: it is of %v", x.name, ErrWrongMesh, x.m)
	}
	return nil
}

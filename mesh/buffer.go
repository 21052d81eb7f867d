package mesh

import (
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
)

// Replicate as an axis of a tensor: all chips along the mesh's axis have the same part.
const Replicate = -1

// BufferConfig describes a buffer on a mesh.
type BufferConfig struct {
	// With Tensor, Size may be 0: a chip's part.
	reprise.BufferConfig
	// Tensor is the shape of a tensor that is divided over the chips, row by row. If nil, every
	// chip has a whole buffer, and a write goes to all.
	Tensor []int
	// Unit is the bytes of one element along the last axis.
	Unit int
	// Split is, for each axis of the mesh, the axis of the tensor that it divides, or Replicate.
	// nil divides the tensor's first axis by the mesh's first, and so on.
	Split []int
}

// Buffer is a buffer at the same address on each chip of a mesh.
type Buffer struct {
	m    *Mesh
	name string
	bufs []*reprise.Buffer
	one  *reprise.Buffer // any of bufs; nil if this host has no chip of the mesh
	size int
	lay  *layout
}

// NewBuffer allocates a buffer with undefined content on all chips. Errors are those of
// reprise.NewBuffers, or wrap ErrTensor.
func (m *Mesh) NewBuffer(c BufferConfig) (*Buffer, error) {
	if err := m.usable("new buffer"); err != nil {
		return nil, err
	}
	b := &Buffer{m: m, name: c.Name}
	if c.Tensor != nil {
		var err error
		if b.lay, err = newLayout(m.shape, &c); err != nil {
			return nil, fmt.Errorf("mesh: new buffer %q: %w", c.Name, err)
		}
		if c.Size == 0 && c.Sharding == nil {
			c.Size = b.lay.bytes
		}
	}
	b.bufs, b.size = make([]*reprise.Buffer, len(m.chips)), c.Size
	if len(m.here) == 0 {
		return b, nil
	}
	bufs, err := reprise.NewBuffers(m.devices(), c.BufferConfig)
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	if b.lay != nil && bufs[0].Size() != b.lay.bytes {
		err := fmt.Errorf("mesh: new buffer %q: %w: a chip has %d B of the tensor, and its buffer has %d B", c.Name, ErrTensor, b.lay.bytes,
			bufs[0].Size())
		for _, b := range bufs {
			err = errors.Join(err, b.Release())
		}
		return nil, err
	}
	b.one, b.size = bufs[0], bufs[0].Size()
	for k, i := range m.here {
		b.bufs[i] = bufs[k]
	}
	return b, nil
}

// Name returns the buffer's name.
func (b *Buffer) Name() string { return b.name }

// Addr returns the address on every chip; 0 if this host has no chip.
func (b *Buffer) Addr() uint32 {
	if b.one == nil {
		return 0
	}
	return b.one.Addr()
}

// Size returns the bytes that Write takes and Read returns: of the tensor, or of one chip's buffer.
func (b *Buffer) Size() int {
	if b.lay == nil {
		return b.size
	}
	return b.lay.total
}

// On returns the buffer of a chip; nil if the chip isn't part of the mesh, or is another host's.
func (b *Buffer) On(c *Chip) *reprise.Buffer { return on(b.m, c, b.bufs) }

// All returns the buffers of all chips, row by row; nil for chips of other hosts.
func (b *Buffer) All() []*reprise.Buffer { return slices.Clone(b.bufs) }

func (m *Mesh) number(c *Chip) int {
	return slices.IndexFunc(m.chips, func(have *Chip) bool {
		return c != nil && have.Device == c.Device && (c.Device != nil || have.node == c.node && have.Name == c.Name)
	})
}

// Release releases the buffer on all chips.
func (b *Buffer) Release() error {
	errs := make([]error, len(b.bufs))
	for i, buf := range b.bufs {
		if buf != nil {
			errs[i] = buf.Release()
		}
	}
	return b.m.failure(fmt.Sprintf("release buffer %q", b.name), errs)
}

func (b *Buffer) of(m *Mesh) error {
	switch {
	case b == nil:
		return errors.New("no buffer: it is nil")
	case b.m != m:
		return fmt.Errorf("buffer %q: %w: it is of %v", b.name, ErrWrongMesh, b.m)
	}
	return nil
}

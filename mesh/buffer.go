package mesh

import (
	"errors"
	"fmt"
	"math"
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

type layout struct {
	tensor []int
	unit   int
	split  []int // axis of the tensor that each axis of the mesh divides, or Replicate
	part   []int // size of a chip's part along each axis of the tensor
	bytes  int
	total  int
}

func newLayout(mesh Shape, c *BufferConfig) (*layout, error) {
	l := &layout{tensor: slices.Clone(c.Tensor), unit: c.Unit, split: slices.Clone(c.Split), part: slices.Clone(c.Tensor)}
	bad := func(format string, args ...any) (*layout, error) {
		return nil, fmt.Errorf("%w: tensor %v of units of %d B over a mesh of %v, split %v: %s", ErrTensor, c.Tensor, c.Unit, mesh, c.Split,
			fmt.Sprintf(format, args...))
	}
	if len(l.tensor) == 0 || l.unit <= 0 {
		return bad("it needs an axis and a positive unit")
	}
	l.total = l.unit
	for _, d := range l.tensor {
		if d <= 0 || l.total > math.MaxInt/d {
			return bad("sizes must be positive, and their product must fit an int")
		}
		l.total *= d
	}
	if l.split == nil {
		for a := range mesh {
			if a >= len(l.tensor) {
				a = Replicate
			}
			l.split = append(l.split, a)
		}
	}
	if len(l.split) != len(mesh) {
		return bad("want an axis of the tensor, or Replicate, for each of the mesh's %d axes", len(mesh))
	}
	for a, t := range l.split {
		if t == Replicate {
			continue
		}
		if t < 0 || t >= len(l.tensor) || slices.Contains(l.split[:a], t) {
			return bad("axis %d of the tensor doesn't exist or is divided twice", t)
		}
		if l.tensor[t]%mesh[a] != 0 {
			return bad("axis %d has %d elements, which can't be divided equally among %d chips", t, l.tensor[t], mesh[a])
		}
		l.part[t] = l.tensor[t] / mesh[a]
	}
	l.bytes = l.unit
	for _, d := range l.part {
		l.bytes *= d
	}
	return l, nil
}

// f gets the bytes n of each contiguous run and its offsets in the tensor and in the chip's part.
func (l *layout) runs(c Coord, f func(whole, part, n int)) {
	axes := len(l.tensor)
	start := make([]int, axes)
	for a, t := range l.split {
		if t != Replicate {
			start[t] = c[a] * l.part[t]
		}
	}
	flat := axes - 1
	for flat > 0 && l.part[flat] == l.tensor[flat] {
		flat--
	}
	stride := make([]int, axes)
	for a, n := axes-1, l.unit; a >= 0; a-- {
		stride[a] = n
		n *= l.tensor[a]
	}
	n := l.part[flat] * stride[flat]
	at := make([]int, flat)
	for part := 0; ; part += n {
		whole := start[flat] * stride[flat]
		for a, i := range at {
			whole += (start[a] + i) * stride[a]
		}
		f(whole, part, n)
		a := flat - 1
		for ; a >= 0; a-- {
			if at[a]++; at[a] < l.part[a] {
				break
			}
			at[a] = 0
		}
		if a < 0 {
			return
		}
	}
}

// take returns a chip's part of a tensor: a slice if contiguous, otherwise a copy.
func (l *layout) take(c Coord, tensor []byte) []byte {
	var out []byte
	l.runs(c, func(whole, part, n int) {
		if part == 0 && n == l.bytes {
			out = tensor[whole : whole+n]
			return
		}
		if out == nil {
			out = make([]byte, l.bytes)
		}
		copy(out[part:part+n], tensor[whole:])
	})
	return out
}

// target returns where to read a chip's part: a slice of the tensor if contiguous, otherwise a
// buffer that done copies to the tensor.
func (l *layout) target(c Coord, tensor []byte) (dst []byte, done func()) {
	done = func() {}
	l.runs(c, func(whole, part, n int) {
		if part == 0 && n == l.bytes {
			dst = tensor[whole : whole+n]
		}
	})
	if dst == nil {
		dst = make([]byte, l.bytes)
		done = func() {
			l.runs(c, func(whole, part, n int) { copy(tensor[whole:whole+n], dst[part:]) })
		}
	}
	return dst, done
}

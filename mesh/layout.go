package mesh

import (
	"fmt"
	"math"
	"slices"
)

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

func (l *layout) same(a, b Coord) bool {
	for i := range a {
		if l.split[i] != Replicate && a[i] != b[i] {
			return false
		}
	}
	return true
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

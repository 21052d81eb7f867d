package mesh

import (
	"fmt"
	"math"
	"slices"
)

// layout says which part of a tensor each place of a mesh has.
type layout struct {
	mesh   Shape
	tensor []int
	unit   int
	split  []int // by axis of the mesh
	part   []int // size of a chip's part along each axis of the tensor
	bytes  int   // of a chip's part
	total  int   // of the tensor
}

func newLayout(mesh Shape, c *BufferConfig) (*layout, error) {
	l := &layout{mesh: mesh, tensor: slices.Clone(c.Tensor), unit: c.Unit, split: slices.Clone(c.Split), part: slices.Clone(c.Tensor)}
	bad := func(format string, args ...any) (*layout, error) {
		return nil, fmt.Errorf("%w: tensor %v of units of %d B over a mesh of %v, split %v: %s", ErrTensor, c.Tensor, c.Unit, mesh, c.Split, fmt.Sprintf(format, args...))
	}
	if len(l.tensor) == 0 || l.unit <= 0 {
		return bad("it needs an axis and a positive unit")
	}
	l.total = l.unit
	for _, d := range l.tensor {
		if d <= 0 || l.total > math.MaxInt/d {
			return bad("sizes must be positive and their product countable")
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
		return bad("say of each of the mesh's %d axes what is cut along it", len(mesh))
	}
	for a, t := range l.split {
		if t == Replicate {
			continue
		}
		if t < 0 || t >= len(l.tensor) || slices.Contains(l.split[:a], t) {
			return bad("axis %d of the tensor isn't there, or is cut twice", t)
		}
		if l.tensor[t]%mesh[a] != 0 {
			return bad("axis %d has %d elements, which %d chips can't have equal parts of", t, l.tensor[t], mesh[a])
		}
		l.part[t] = l.tensor[t] / mesh[a]
	}
	l.bytes = l.unit
	for _, d := range l.part {
		l.bytes *= d
	}
	return l, nil
}

// first says whether no chip with a smaller number has the same part.
func (l *layout) first(c Coord) bool {
	for a, x := range c {
		if l.split[a] == Replicate && x > 0 {
			return false
		}
	}
	return true
}

// runs calls f for each piece of a chip's part that lies in one piece in the tensor: n bytes, at byte whole of the tensor and
// byte part of the chip's.
func (l *layout) runs(c Coord, f func(whole, part, n int)) {
	axes := len(l.tensor)
	start := make([]int, axes)
	for a, t := range l.split {
		if t != Replicate {
			start[t] = c[a] * l.part[t]
		}
	}
	// From axis flat on a part has all of the tensor but for its first index.
	flat := axes - 1
	for flat > 0 && l.part[flat] == l.tensor[flat] {
		flat--
	}
	stride := make([]int, axes) // bytes of the tensor from one index to the next
	for a, n := axes-1, l.unit; a >= 0; a-- {
		stride[a] = n
		n *= l.tensor[a]
	}
	n := l.part[flat] * stride[flat]
	at := make([]int, flat) // index of the row
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

// take returns a chip's part of a tensor: a piece of it where that lies in one piece, or a copy.
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

// target returns where a chip's part is to be read to: a piece of the tensor, or apart, and then done puts it there.
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

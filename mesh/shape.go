package mesh

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// Shape is the size of a mesh along each axis.
type Shape []int

// 0 for an invalid shape.
func (s Shape) Size() int {
	if len(s) == 0 {
		return 0
	}
	n := 1
	for _, d := range s {
		if d <= 0 || n > maxChips/d {
			return 0
		}
		n *= d
	}
	return n
}

const maxChips = 1 << 16

// Line reports whether at most one axis is longer than 1.
func (s Shape) Line() bool {
	long := 0
	for _, d := range s {
		if d > 1 {
			long++
		}
	}
	return long <= 1
}

// String returns "2x4".
func (s Shape) String() string { return join(s, "x") }

// Coord is a place in a mesh.
type Coord []int

// String returns "(1,3)".
func (c Coord) String() string { return "(" + join(c, ",") + ")" }

func join(s []int, sep string) string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = strconv.Itoa(d)
	}
	return strings.Join(parts, sep)
}

// Index returns the number of the chip at c, or false if the shape has no such place.
func (s Shape) Index(c Coord) (int, bool) {
	if len(c) != len(s) {
		return 0, false
	}
	n := 0
	for i, d := range s {
		if c[i] < 0 || c[i] >= d {
			return 0, false
		}
		n = n*d + c[i]
	}
	return n, true
}

// Coord returns the coordinate of chip i, 0 <= i < Size.
func (s Shape) Coord(i int) Coord {
	c := make(Coord, len(s))
	for a := len(s) - 1; a >= 0; a-- {
		c[a] = i % s[a]
		i /= s[a]
	}
	return c
}

// Range is a box of places, both ends included. The zero Range is the whole mesh. If the ends have
// different numbers of axes, the range is empty.
type Range struct{ Start, End Coord }

// At returns the range of one place.
func At(c ...int) Range { return Range{Start: c, End: c} }

// IsZero reports whether the range is the zero Range.
func (r Range) IsZero() bool { return r.Start == nil && r.End == nil }

func (r Range) String() string {
	if r.IsZero() {
		return "all"
	}
	return r.Start.String() + "-" + r.End.String()
}

// Shape returns the size along each axis, or nil if the ends have different numbers of axes.
func (r Range) Shape() Shape {
	if len(r.Start) != len(r.End) {
		return nil
	}
	s := make(Shape, len(r.Start))
	for i := range s {
		s[i] = r.End[i] - r.Start[i] + 1
	}
	return s
}

// Contains reports whether a place is in the range.
func (r Range) Contains(c Coord) bool {
	if r.IsZero() {
		return true
	}
	if len(c) != len(r.Start) || len(c) != len(r.End) {
		return false
	}
	for i := range c {
		if c[i] < r.Start[i] || c[i] > r.End[i] {
			return false
		}
	}
	return true
}

// Coords iterates over the places row by row. The zero Range has none.
func (r Range) Coords() iter.Seq[Coord] {
	return func(yield func(Coord) bool) {
		s := r.Shape()
		for i := range s.Size() {
			c := s.Coord(i)
			for a := range c {
				c[a] += r.Start[a]
			}
			if !yield(c) {
				return
			}
		}
	}
}

func (r Range) in(s Shape) (Range, error) {
	if r.IsZero() {
		end := make(Coord, len(s))
		for i, d := range s {
			end[i] = d - 1
		}
		return Range{make(Coord, len(s)), end}, nil
	}
	for _, c := range []Coord{r.Start, r.End} {
		if _, ok := s.Index(c); !ok {
			return Range{}, &RangeError{Range: r, Shape: s, Why: fmt.Sprintf("there is no place %v", c)}
		}
	}
	for i := range r.Start {
		if r.End[i] < r.Start[i] {
			return Range{}, &RangeError{Range: r, Shape: s, Why: "it ends before it starts"}
		}
	}
	return r, nil
}

package mesh_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/mesh"
)

func TestShapesCountRowByRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mesh.Shape(rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "shape"))
		var last mesh.Coord
		for i := range s.Size() {
			c := s.Coord(i)
			if n, ok := s.Index(c); !ok || n != i {
				t.Fatalf("%v: place %d is %v, whose number is %d", s, i, c, n)
			}
			if i > 0 && slices.Compare(last, c) >= 0 {
				t.Fatalf("%v comes before %v", last, c)
			}
			last = c
		}
		out := s.Coord(0)
		out[len(out)-1] = s[len(s)-1]
		if _, ok := s.Index(out); ok {
			t.Fatalf("%v has %v", s, out)
		}
	})
}

func TestRangesIntersect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		axes := rapid.IntRange(1, 3).Draw(t, "axes")
		draw := func(name string) mesh.Range {
			var r mesh.Range
			for range axes {
				a, b := rapid.IntRange(0, 4).Draw(t, name), rapid.IntRange(0, 4).Draw(t, name)
				r.Start, r.End = append(r.Start, min(a, b)), append(r.End, max(a, b))
			}
			return r
		}
		a, b := draw("a"), draw("b")
		both, ok := a.Intersect(b)
		s := make(mesh.Shape, axes)
		for i := range s {
			s[i] = 5
		}
		n := 0
		for i := range s.Size() {
			c := s.Coord(i)
			in := a.Contains(c) && b.Contains(c)
			if in {
				n++
			}
			if in != (ok && both.Contains(c)) {
				t.Fatalf("%v and %v have %v in common (%t), %v is in both: %t", a, b, both, ok, c, in)
			}
		}
		if ok && both.Shape().Size() != n {
			t.Fatalf("%v has %d places, want %d", both, both.Shape().Size(), n)
		}
	})
}

func TestRangesWhoseEndsDiffer(t *testing.T) {
	whole := mesh.At(1, 1)
	for _, r := range []mesh.Range{{Start: mesh.Coord{0, 0}}, {End: mesh.Coord{1, 1}}, {Start: mesh.Coord{0, 0}, End: mesh.Coord{1}},
		{Start: mesh.Coord{0}, End: mesh.Coord{1, 1}}} {
		if r.Contains(mesh.Coord{1, 1}) || r.Contains(mesh.Coord{1}) || r.Shape().Size() != 0 {
			t.Errorf("%v has places", r)
		}
		for range r.Coords() {
			t.Errorf("%v goes through places", r)
		}
		for _, pair := range [][2]mesh.Range{{r, whole}, {whole, r}, {r, r}} {
			if both, ok := pair[0].Intersect(pair[1]); ok {
				t.Errorf("%v and %v have %v in common", pair[0], pair[1], both)
			}
		}
	}
}

func TestShapesThatCannotBe(t *testing.T) {
	fails(t, second(mesh.Open(t.Context(), nil, mesh.Shape{2, 0})), mesh.ErrShape, "2x0")
	if s := (mesh.Shape{1, 4, 1}); !s.Line() {
		t.Errorf("%v is no line", s)
	}
	if s := (mesh.Shape{2, 2}); s.Line() {
		t.Errorf("%v is a line", s)
	}
}

func TestHost(t *testing.T) {
	m, err := mesh.Host(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, card := range m {
		if card.String() == "" {
			t.Error("a card without a name")
		}
	}
}

package mesh

import (
	"slices"
)

// links are the chips that are linked: links[i] has j if a working link joins i and j. The entry of a chip that can't be used is
// nil.
type links []map[int]bool

// embedSteps limits the search. Real meshes are found in some hundreds of steps.
const embedSteps = 200_000

// embed finds a chip for each place of a shape so that neighbours are linked. It takes the lowest numbers that fit, so the same
// chips and links always give the same mesh.
func embed(s Shape, l links, steps int) ([]int, bool) {
	n := s.Size()
	usable := 0
	for _, m := range l {
		if m != nil {
			usable++
		}
	}
	if n == 0 || n > usable {
		return nil, false
	}
	stride := make([]int, len(s))
	for a, k := len(s)-1, 1; a >= 0; a-- {
		stride[a] = k
		k *= s[a]
	}
	at, used, left := make([]int, n), make([]bool, len(l)), steps
	degree := make([]int, n) // number of neighbours of a place
	for i := range n {
		for a, c := range s.Coord(i) {
			if c > 0 {
				degree[i]++
			}
			if c < s[a]-1 {
				degree[i]++
			}
		}
	}
	var place func(i int) bool
	place = func(i int) bool {
		if i == n {
			return true
		}
		coord := s.Coord(i)
		for c := range l {
			if left--; left < 0 {
				return false
			}
			if used[c] || l[c] == nil || len(l[c]) < degree[i] {
				continue
			}
			ok := true
			for a, x := range coord {
				ok = ok && (x == 0 || l[c][at[i-stride[a]]])
			}
			if !ok {
				continue
			}
			at[i], used[c] = c, true
			if place(i + 1) {
				return true
			}
			used[c] = false
		}
		return false
	}
	if !place(0) {
		return nil, false
	}
	return at, true
}

// possible returns up to three shapes with a number of axes that the chips can form, largest first.
func possible(axes int, l links) []Shape {
	usable := 0
	for _, m := range l {
		if m != nil {
			usable++
		}
	}
	var all []Shape
	var add func(s Shape)
	add = func(s Shape) {
		if len(s) == axes {
			all = append(all, slices.Clone(s))
			return
		}
		for d := 1; Shape(append(s, d)).Size() <= usable && d <= usable; d++ {
			add(append(slices.Clone(s), d))
		}
	}
	if axes <= 3 { // with more axes there are too many shapes to try
		add(nil)
	}
	slices.SortStableFunc(all, func(a, b Shape) int { return b.Size() - a.Size() })
	var out []Shape
	for _, s := range all {
		if len(out) == 3 {
			break
		}
		if _, ok := embed(s, l, embedSteps/20); ok {
			out = append(out, s)
		}
	}
	return out
}

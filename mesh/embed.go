package mesh

import (
	"maps"
	"slices"
)

// links has j in links[i] if a working link joins chips i and j; nil for an unusable chip.
type links []map[int]bool

func (l links) usable() int {
	n := 0
	for _, m := range l {
		if m != nil {
			n++
		}
	}
	return n
}

// embedSteps bounds each search, plus stepsOfPlace for each place. Most meshes take some hundred
// steps.
const (
	embedSteps   = 200_000
	stepsOfPlace = 64
)

// embed finds a chip for each place of a shape so that neighbours are linked. It takes the lowest
// numbers that fit, row by row, so equal links always give the same mesh. If that takes too many
// steps, it grows the mesh from its first corner; first only with chips that have as many
// neighbours as their places, to stay at the rim.
func embed(s Shape, l links, steps int) ([]int, bool) {
	n := s.Size()
	if usable := l.usable(); n == 0 || n > usable {
		return nil, false
	}
	e := newEmbedding(s, l)
	rows := upTo(n)
	at, ok, all := e.search(rows, false, steps+n*stepsOfPlace)
	if ok || all {
		return at, ok
	}
	if s.Line() {
		if at, ok := line(n, l, e.near, steps+n*stepsOfPlace); ok {
			return at, true
		}
		return lineOfGrid(n, l, steps)
	}
	corner := slices.Clone(rows)
	far := func(i int) int { return slices.Max(s.Coord(i)) }
	slices.SortStableFunc(corner, func(a, b int) int { return far(a) - far(b) })
	for _, exact := range []bool{true, false} {
		if at, ok, _ := e.search(corner, exact, steps+n*stepsOfPlace); ok {
			return at, true
		}
	}
	return nil, false
}

// upTo returns the numbers from 0 to n-1.
func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

type embedding struct {
	l      links
	near   [][]int // by chip: linked chips, in order
	before [][]int // by place: neighbours with lower coordinates
	degree []int
}

func newEmbedding(s Shape, l links) *embedding {
	n := s.Size()
	e := &embedding{l: l, near: make([][]int, len(l)), before: make([][]int, n), degree: make([]int, n)}
	for c, m := range l {
		e.near[c] = slices.Sorted(maps.Keys(m))
	}
	for i := range n {
		coord, stride := s.Coord(i), 1
		for a := len(s) - 1; a >= 0; a-- {
			if coord[a] > 0 {
				e.before[i] = append(e.before[i], i-stride)
				e.degree[i]++
			}
			if coord[a] < s[a]-1 {
				e.degree[i]++
			}
			stride *= s[a]
		}
	}
	return e
}

func (e *embedding) search(order []int, exact bool, steps int) (at []int, ok, all bool) {
	at = make([]int, len(order))
	used := make([]bool, len(e.l))
	every := upTo(len(e.l))
	var place func(k int) bool
	place = func(k int) bool {
		if k == len(order) {
			return true
		}
		i, candidates := order[k], every
		if b := e.before[i]; len(b) > 0 {
			candidates = e.near[at[b[0]]]
		}
		for _, c := range candidates {
			if steps--; steps < 0 {
				return false
			}
			if d := len(e.l[c]); used[c] || e.l[c] == nil || d < e.degree[i] || exact && d != e.degree[i] {
				continue
			}
			if slices.ContainsFunc(e.before[i], func(j int) bool { return !e.l[c][at[j]] }) {
				continue
			}
			at[i], used[c] = c, true
			if place(k + 1) {
				return true
			}
			used[c] = false
		}
		return false
	}
	ok = place(0)
	return at, ok, steps >= 0
}

// With more axes or chips there are too many shapes.
const (
	possibleAxes  = 3
	possibleChips = 4096
	possibleTries = 1000
)

// possible returns the up to three largest shapes for which fits is true.
func possible(axes, usable int, fits func(Shape) bool) []Shape {
	if axes > possibleAxes || usable > possibleChips {
		return nil
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
	add(nil)
	slices.SortStableFunc(all, func(a, b Shape) int { return b.Size() - a.Size() })
	var out []Shape
	for _, s := range all[:min(len(all), possibleTries)] {
		if len(out) == 3 {
			break
		}
		if fits(s) {
			out = append(out, s)
		}
	}
	return out
}

func (l links) possible(axes int) []Shape {
	return possible(axes, l.usable(), func(s Shape) bool {
		_, ok := embed(s, l, embedSteps/20)
		return ok
	})
}

// line finds a path of n linked chips. It continues where fewest ways are left (Warnsdorff's rule),
// so no chip at the rim is left behind, and then at the lowest number, which stays on one host as
// long as possible.
func line(n int, l links, near [][]int, steps int) ([]int, bool) {
	free := make([]int, len(l)) // by chip: links to chips outside of the line
	for c := range l {
		free[c] = len(near[c])
	}
	used, at := make([]bool, len(l)), make([]int, 0, n)
	var from func(c int) bool
	from = func(c int) bool {
		if steps--; steps < 0 {
			return false
		}
		used[c], at = true, append(at, c)
		if len(at) == n {
			return true
		}
		next := make([]int, 0, len(near[c]))
		for _, d := range near[c] {
			free[d]--
			if !used[d] {
				next = append(next, d)
			}
		}
		slices.SortStableFunc(next, func(a, b int) int { return free[a] - free[b] })
		if slices.ContainsFunc(next, from) {
			return true
		}
		for _, d := range near[c] {
			free[d]++
		}
		used[c], at = false, at[:len(at)-1]
		return false
	}
	for c := range l {
		if l[c] != nil && from(c) {
			return at, true
		}
	}
	return nil, false
}

// Without helpful numbers a grid is easier to find than a line.
func lineOfGrid(n int, l links, steps int) ([]int, bool) {
	all := l.usable()
	for rows := all / 2; rows > 1; rows-- { // the squarest first
		if all%rows != 0 || rows*rows > all {
			continue
		}
		grid := Shape{rows, all / rows}
		at, ok := embed(grid, l, steps)
		if !ok {
			continue
		}
		out := make([]int, n)
		for i, place := range snake(grid)[:n] {
			out[i] = at[place]
		}
		return out, true
	}
	return nil, false
}

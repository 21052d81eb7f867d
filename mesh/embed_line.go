package mesh

import "slices"

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

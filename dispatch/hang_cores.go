package dispatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
)

// maxNamed is how many ranges of busy cores an error names.
const maxNamed = 4

// busyCores says how many cores are busy, and which: those of queues by what they do, and workers in ranges.
func busyCores(cores []CoreState) string {
	var workers []chip.Core
	var others []string
	busy, unreadable := 0, 0
	for i := range cores {
		switch s := &cores[i]; {
		case s.Unreadable != "":
			unreadable++
			continue
		case !s.Busy():
			continue
		case s.Kind == kindWorker:
			workers = append(workers, s.Core)
		default:
			others = append(others, fmt.Sprintf("%s %v", s.Kind, s.Core))
		}
		busy++
	}
	s := fmt.Sprintf("%d of %d cores busy", busy, len(cores))
	if busy > 0 {
		var named []string
		for _, r := range ranges(workers) {
			if named = append(named, r.String()); r.Start == r.End {
				named[len(named)-1] = r.Start.String()
			}
		}
		if len(named) > 0 {
			named[0] = "workers " + named[0]
		}
		named = append(named, others...)
		if more := len(named) - maxNamed; more > 1 {
			named = append(named[:maxNamed], fmt.Sprintf("%d more", more))
		}
		s += " (" + strings.Join(named, ", ") + ")"
	}
	if unreadable > 0 {
		s += fmt.Sprintf(", %d unreadable", unreadable)
	}
	return s
}

// ranges covers cores by rectangles: rows as long as they go on, and as many equal ones as follow one another.
func ranges(cores []chip.Core) []chip.Range {
	slices.SortFunc(cores, func(a, b chip.Core) int {
		if a.Y != b.Y {
			return a.Y - b.Y
		}
		return a.X - b.X
	})
	var rows, out []chip.Range
	for _, c := range cores {
		if n := len(rows); n > 0 && rows[n-1].End == (chip.Core{X: c.X - 1, Y: c.Y}) {
			rows[n-1].End = c
			continue
		}
		rows = append(rows, chip.Range{Start: c, End: c})
	}
	for _, r := range rows {
		i := slices.IndexFunc(out, func(o chip.Range) bool {
			return o.Start.X == r.Start.X && o.End.X == r.End.X && o.End.Y == r.Start.Y-1
		})
		if i >= 0 {
			out[i].End.Y = r.End.Y
			continue
		}
		out = append(out, r)
	}
	return out
}

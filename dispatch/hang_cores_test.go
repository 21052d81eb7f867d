package dispatch

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// An error of a hang names the cores that are busy, few of them one by one and many as ranges.
func TestBusyCores(t *testing.T) {
	grid := func(kind string, r chip.Range, busy ...chip.Range) []CoreState {
		var out []CoreState
		for c := range r.Cores() {
			s := CoreState{Core: c, Kind: kind}
			for _, b := range busy {
				if b.Contains(c) {
					s.Go = 0x80 << 24
				}
			}
			out = append(out, s)
		}
		return out
	}
	workers := chip.Grid(8, 4)
	row := chip.Range{Start: chip.Core{Y: 4}, End: chip.Core{X: 7, Y: 4}}
	for _, c := range []struct {
		cores []CoreState
		want  string
	}{
		{grid(kindWorker, workers), "0 of 32 cores busy"},
		{grid(kindWorker, workers, chip.Single(2, 1)), "1 of 32 cores busy (workers (2,1))"},
		{grid(kindWorker, workers, workers), "32 of 32 cores busy (workers (0,0)-(7,3))"},
		{grid(kindWorker, workers, chip.Grid(2, 2), chip.Single(5, 1), chip.Single(5, 2)), "6 of 32 cores busy (workers (0,0)-(1,1), (5,1)-(5,2))"},
		{append(grid(kindWorker, workers, chip.Grid(1, 1)), grid(kindPrefetch, row, chip.Single(3, 4))...), "2 of 40 cores busy (workers (0,0), prefetch (3,4))"},
		{
			grid(kindWorker, workers, chip.Single(0, 0), chip.Single(2, 0), chip.Single(4, 0), chip.Single(6, 0), chip.Single(0, 2),
				chip.Single(2, 2)),
			"6 of 32 cores busy (workers (0,0), (2,0), (4,0), (6,0), 2 more)",
		},
		{[]CoreState{{Unreadable: "the chip has stopped"}, {Go: 0}}, "0 of 2 cores busy, 1 unreadable"},
	} {
		if got := busyCores(c.cores); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

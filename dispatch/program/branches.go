package program

import (
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// SharedCoresError: programs of branches that run at once have cores in common.
type SharedCoresError struct {
	Programs [2]string
	Cores    []chip.Core
}

func (e *SharedCoresError) Error() string {
	return fmt.Sprintf("programs %q and %q would run at once, and share the cores %v", e.Programs[0], e.Programs[1], chip.Cover(e.Cores))
}

// Branches are branches that run at once: the last program of each core.
type Branches []map[chip.Core]string

// Add adds a program to the last branch, if there is one.
func (b Branches) Add(im *Image) error {
	if len(b) == 0 {
		return nil // without an allocation
	}
	var e SharedCoresError
	for i, on := range b {
		for _, c := range im.where {
			name, taken := on[c]
			if i == len(b)-1 {
				on[c] = im.name
			} else if taken && (e.Cores == nil || e.Programs[0] == name) {
				e.Programs, e.Cores = [2]string{name, im.name}, append(e.Cores, c)
			}
		}
	}
	if e.Cores != nil {
		return &e
	}
	return nil
}

// Rects covers the last branch's cores exactly, and returns their number.
func (b Branches) Rects(ch *chip.Chip) (rects []cq.Rect, cores uint32) {
	for _, r := range chip.Cover(slices.Collect(maps.Keys(b[len(b)-1]))) {
		v := ch.Rects(r)[0]
		noc := cq.Layout(ch.Arch()).NOCRect(v.Start.X, v.Start.Y, v.End.X, v.End.Y)
		rects, cores = append(rects, cq.Rect{NOC: noc, Dests: uint32(v.Cores)}), cores+uint32(v.Cores)
	}
	return rects, cores
}

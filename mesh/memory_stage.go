package mesh

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/allocator"
)

// MemoryStage is what is allocated on a mesh at a stage of a program.
type MemoryStage struct {
	Label string       `json:"label"`
	Chips []ChipMemory `json:"chips"` // those of this host, row by row
}

// ChipMemory is what is allocated on a chip.
type ChipMemory struct {
	Coord Coord        `json:"coord"`
	Name  string       `json:"name"`
	Kinds []KindMemory `json:"kinds"`
}

// KindMemory is the use of a kind of memory, and its change since the stage before.
type KindMemory struct {
	allocator.Stats
	AllocatedChange int64 `json:"allocated_change"` // bytes in each bank
	ExtentsChange   int   `json:"extents_change"`
}

// MemoryStage returns what is allocated on each chip of this host. Changes count from the stage
// before; from an empty device if it is nil.
func (m *Mesh) MemoryStage(label string, before *MemoryStage) *MemoryStage {
	type place struct{ chip, kind string }
	was := map[place]KindMemory{}
	if before != nil {
		for _, c := range before.Chips {
			for _, k := range c.Kinds {
				was[place{c.Name, k.Kind.Code()}] = k
			}
		}
	}
	s := &MemoryStage{Label: label}
	for _, c := range m.Here() {
		chip := ChipMemory{Coord: c.Coord, Name: c.Name}
		for _, k := range allocator.Kinds() {
			now := KindMemory{Stats: c.Device.Memory(k)}
			old := was[place{c.Name, k.Code()}]
			now.AllocatedChange = int64(now.Allocated) - int64(old.Allocated)
			now.ExtentsChange = now.Extents - old.Extents
			chip.Kinds = append(chip.Kinds, now)
		}
		s.Chips = append(s.Chips, chip)
	}
	return s
}

// Print writes a line for each chip and kind of memory that is in use or was in the stage before.
// Sizes are bytes in all banks.
func (s *MemoryStage) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.Label)
	for _, c := range s.Chips {
		for _, k := range c.Kinds {
			if k.Allocated == 0 && k.AllocatedChange == 0 {
				continue
			}
			sign, change := "+", k.AllocatedChange
			if change < 0 {
				sign, change = "-", -change
			}
			banks := uint64(k.Banks)
			fmt.Fprintf(&b, "  chip %v  %-8s %s (%s%s) in %d banks, %d allocated (%+d)\n", c.Coord, k.Kind.Code(),
				humanize.IBytes(k.Allocated*banks), sign, humanize.IBytes(uint64(change)*banks), k.Banks, k.Extents, k.ExtentsChange)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

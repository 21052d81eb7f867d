package chip

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// XY is a NoC coordinate.
type XY struct{ X, Y uint8 }

func (c XY) String() string { return fmt.Sprintf("(%d,%d)", c.X, c.Y) }

// Packed returns x | y<<6, the form of device-side tables and of NoC node id registers.
func (c XY) Packed() uint32 { return uint32(c.X&63) | uint32(c.Y&63)<<6 }

// UnpackXY is the inverse of [XY.Packed]; bits above 11 are ignored.
func UnpackXY(v uint32) XY { return XY{uint8(v & 63), uint8(v >> 6 & 63)} }

// Core is a logical worker coordinate: column and row among the Tensix tiles that work, from (0,0).
type Core struct{ X, Y int }

func (c Core) String() string { return fmt.Sprintf("(%d,%d)", c.X, c.Y) }

// Compare orders cores row by row.
func (c Core) Compare(d Core) int {
	return cmp.Or(cmp.Compare(c.Y, d.Y), cmp.Compare(c.X, d.X))
}

// Range is a rectangle of logical cores, both corners included. It is empty if End is left of or
// above Start.
type Range struct{ Start, End Core }

// Grid returns the range of w by h cores from (0,0) on.
func Grid(w, h int) Range { return Range{End: Core{w - 1, h - 1}} }

// Single returns the range of one core.
func Single(x, y int) Range { return Core{x, y}.Range() }

// Range returns the range of the core alone.
func (c Core) Range() Range { return Range{c, c} }

func (r Range) String() string { return r.Start.String() + "-" + r.End.String() }

// Empty reports whether the range holds no core.
func (r Range) Empty() bool { return r.End.X < r.Start.X || r.End.Y < r.Start.Y }

// Contains reports whether c is in the range.
func (r Range) Contains(c Core) bool {
	return c.X >= r.Start.X && c.X <= r.End.X && c.Y >= r.Start.Y && c.Y <= r.End.Y
}

// In reports whether the core is in one of some ranges.
func (c Core) In(rs []Range) bool {
	return slices.ContainsFunc(rs, func(r Range) bool { return r.Contains(c) })
}

// Size returns the number of cores in the range.
func (r Range) Size() int {
	if r.Empty() {
		return 0
	}
	return (r.End.X - r.Start.X + 1) * (r.End.Y - r.Start.Y + 1)
}

// Overlaps reports whether the ranges have a core in common.
func (r Range) Overlaps(s Range) bool {
	return !r.Empty() && !s.Empty() &&
		r.Start.X <= s.End.X && s.Start.X <= r.End.X && r.Start.Y <= s.End.Y && s.Start.Y <= r.End.Y
}

// Cores visits the cores of the range row by row.
func (r Range) Cores() iter.Seq[Core] {
	return func(yield func(Core) bool) {
		for y := r.Start.Y; y <= r.End.Y; y++ {
			for x := r.Start.X; x <= r.End.X; x++ {
				if !yield(Core{x, y}) {
					return
				}
			}
		}
	}
}

// Divide checks a division of a grid into at most most disjoint sets of cores, each of one core or
// more, and returns the set of each core that is in one, and the sets' numbers of cores.
func Divide(grid Range, most int, sets [][]Range) (of map[Core]uint8, n []int, err error) {
	if len(sets) == 0 || len(sets) > most {
		return nil, nil, fmt.Errorf("%d sub-devices: there may be 1 to %d", len(sets), most)
	}
	of, n = map[Core]uint8{}, make([]int, len(sets))
	for i, set := range sets {
		for _, r := range set {
			if r.Empty() || !grid.Contains(r.Start) || !grid.Contains(r.End) {
				return nil, nil, fmt.Errorf("sub-device %d: %v is not inside the worker grid %v", i, r, grid)
			}
			for c := range r.Cores() {
				if o, taken := of[c]; taken && int(o) != i {
					return nil, nil, fmt.Errorf("sub-devices %d and %d have core %v both: make them disjoint", o, i, c)
				} else if !taken {
					of[c] = uint8(i)
					n[i]++
				}
			}
		}
		if n[i] == 0 {
			return nil, nil, fmt.Errorf("sub-device %d has no cores", i)
		}
	}
	return of, n, nil
}

// NOCXY returns the word that names one tile in a NoC request and in dispatch commands: y<<10 |
// x<<4 on Wormhole, whose MID address register also holds address bits 35:32 below the coordinate,
// y<<6 | x on Blackhole (tt-isa-documentation */NoC/MemoryMap.md).
func (a Arch) NOCXY(c XY) uint32 {
	return c.Packed() << a.coordShift()
}

// NOCMulticast is NOCXY for a rectangle of tiles. Software swaps the corners for NoC 1
// ([VirtualRect.Corners]).
func (a Arch) NOCMulticast(start, end XY) uint32 {
	return (start.Packed()<<12 | end.Packed()) << a.coordShift()
}

// ParseNOCXY is the inverse of [Arch.NOCXY]; other bits are ignored.
func (a Arch) ParseNOCXY(w uint32) XY { return UnpackXY(w >> a.coordShift()) }

// ParseNOCMulticast is the inverse of [Arch.NOCMulticast]; other bits are ignored.
func (a Arch) ParseNOCMulticast(w uint32) (start, end XY) {
	w >>= a.coordShift()
	return UnpackXY(w >> 12), UnpackXY(w)
}

func (a Arch) coordShift() uint {
	if a == Wormhole {
		return 4
	}
	return 0
}

// Mirror converts a raw coordinate between NoC 0 and NoC 1: (9-x, 11-y) on Wormhole, (16-x, 11-y)
// on Blackhole; unchanged outside the grid (tt-umd device/arch/*_implementation.hpp).
func (a Arch) Mirror(c XY) XY {
	w, h := a.gridSize()
	if c.X >= w || c.Y >= h {
		return c
	}
	return XY{w - 1 - c.X, h - 1 - c.Y}
}

func (a Arch) gridSize() (w, h uint8) {
	switch a {
	case Wormhole:
		return 10, 12
	case Blackhole:
		return 17, 12
	}
	return 0, 0
}

var (
	// ErrUnknownArch.
	ErrUnknownArch = errors.New("unknown architecture: want wormhole or blackhole")
	// ErrHarvesting: the mask names a unit that doesn't exist or can't be harvested, or leaves
	// nothing.
	ErrHarvesting = errors.New("impossible harvesting")
	// ErrCoordinate: the coordinate names no tile in its space. A [*CoordinateError] wraps it.
	ErrCoordinate = errors.New("no such coordinate")
	// ErrWindow: the hardware can't hold the TLB window configuration. A [*WindowError] wraps it.
	ErrWindow = errors.New("impossible TLB window configuration")
)

// CoordinateError is a refused coordinate with its space and the reason.
type CoordinateError struct {
	Arch  Arch
	Space string // "logical", "virtual" or "raw"
	X, Y  int
	Why   string
}

func (e *CoordinateError) Error() string {
	return fmt.Sprintf("chip: %s %s coordinate (%d,%d): %s", e.Arch, e.Space, e.X, e.Y, e.Why)
}

func (e *CoordinateError) Unwrap() error { return ErrCoordinate }

// WindowError is a refused field of a TLB window configuration.
type WindowError struct {
	Arch  Arch
	Size  uint64
	Field string // "size", "address", "target", "start", "ordering", "vc", "noc"
	Value uint64
	Why   string
}

func (e *WindowError) Error() string {
	return fmt.Sprintf("chip: %s TLB window of %#x B: %s %#x: %s", e.Arch, e.Size, e.Field, e.Value, e.Why)
}

func (e *WindowError) Unwrap() error { return ErrWindow }

package chip

import (
	"fmt"
	"iter"
	"slices"
)

// Chip is an architecture with its harvesting applied. It is immutable.
type Chip struct {
	arch   Arch
	h      Harvesting
	params *Params
	pcie   XY

	columns, rows []uint8 // raw, of working Tensix tiles, ascending
	tiles         [maxRows][maxColumns]Tile
	routes        [2][virtualSpan * virtualSpan]route // by NoC, at y*virtualSpan+x
	banks         []Bank
}

const (
	maxColumns  = 17
	maxRows     = 12
	virtualSpan = 32 // virtual coordinates are below it in both axes
)

type route struct {
	raw XY
	ok  bool
}

// New returns a chip of an architecture with units harvested. Errors wrap [ErrUnknownArch] or
// [ErrHarvesting].
func New(a Arch, h Harvesting) (*Chip, error) {
	if !a.Valid() {
		return nil, fmt.Errorf("chip: new %s: %w", a, ErrUnknownArch)
	}
	if err := h.check(a); err != nil {
		return nil, err
	}
	c := &Chip{arch: a, h: h, params: a.Params(), pcie: a.pcieTiles()[0]}
	if h.SecondPCIe {
		c.pcie = a.pcieTiles()[1]
	}
	for i, x := range a.tensixColumns() {
		if a == Wormhole || c.h.Tensix>>i&1 == 0 {
			c.columns = append(c.columns, x)
		}
	}
	for i, y := range a.tensixRows() {
		if a == Blackhole || c.h.Tensix>>i&1 == 0 {
			c.rows = append(c.rows, y)
		}
	}
	for k := Tensix; k <= L2CPU; k++ {
		for i, at := range a.tilesOf(k) {
			t := Tile{Kind: k, Index: i}
			switch k {
			case Tensix:
				col, row := i%len(a.tensixColumns()), i/len(a.tensixColumns())
				unit := row
				if a == Blackhole {
					unit = col
				}
				t.Harvested = c.h.Tensix>>unit&1 != 0
			case DRAM:
				t.Index, t.Port = i/portsPerBank, i%portsPerBank
				t.Harvested = c.h.DRAM>>t.Index&1 != 0
			case Ethernet:
				t.Harvested = c.h.Ethernet>>i&1 != 0
			case PCIe:
				t.Harvested = at != c.pcie
			}
			c.tiles[at.Y][at.X] = t
		}
	}
	if a == Wormhole {
		c.routeWormhole()
		c.banks = c.banksWormhole()
	} else {
		c.routeBlackhole()
		c.banks = c.banksBlackhole()
	}
	return c, nil
}

// Arch returns the chip's architecture.
func (c *Chip) Arch() Arch { return c.arch }

// Harvesting returns what is fused off.
func (c *Chip) Harvesting() Harvesting { return c.h }

// Params returns the architecture's constants, which are shared: don't change them.
func (c *Chip) Params() *Params { return c.params }

// Grid returns the columns and rows of the logical grid: 8 by the rows left on Wormhole, the
// columns left by 10 on Blackhole.
func (c *Chip) Grid() (w, h int) { return len(c.columns), len(c.rows) }

// All returns the range of all logical cores.
func (c *Chip) All() Range { return Grid(c.Grid()) }

// Workers visits all logical cores row by row.
func (c *Chip) Workers() iter.Seq[Core] { return c.All().Cores() }

// Tile returns the tile at a raw coordinate; the zero Tile outside the grid.
func (c *Chip) Tile(raw XY) Tile {
	if raw.X >= maxColumns || raw.Y >= maxRows {
		return Tile{}
	}
	return c.tiles[raw.Y][raw.X]
}

// Kind returns the kind of the tile at a raw coordinate, NoTile outside the grid. Harvested tiles
// keep their kind.
func (c *Chip) Kind(raw XY) TileKind { return c.Tile(raw).Kind }

// Tiles visits the raw coordinates of all tiles of a kind, harvested ones included, in the order of
// [Tile.Index].
func (c *Chip) Tiles(k TileKind) iter.Seq[XY] { return slices.Values(c.arch.tilesOf(k)) }

// Physical returns the raw NoC 0 coordinate of a logical core. The error is a [*CoordinateError].
func (c *Chip) Physical(core Core) (XY, error) {
	if !c.All().Contains(core) {
		return XY{}, c.outside(core)
	}
	return XY{c.columns[core.X], c.rows[core.Y]}, nil
}

// Virtual returns the virtual coordinate of a logical core, the same on both NoCs: (18+x, 18+y) on
// Wormhole; on Blackhole x counts through columns 1-7 and 10-16, and y starts at 2. The error is a
// [*CoordinateError].
func (c *Chip) Virtual(core Core) (XY, error) {
	if !c.All().Contains(core) {
		return XY{}, c.outside(core)
	}
	return c.virtual(core), nil
}

func (c *Chip) virtual(core Core) XY {
	if c.arch == Wormhole {
		return XY{uint8(wormholeTensix + core.X), uint8(wormholeTensix + core.Y)}
	}
	x := core.X + 1
	if x > 7 {
		x += 2
	}
	return XY{uint8(x), uint8(core.Y + 2)}
}

// Logical is the inverse of [Chip.Virtual]; false if no logical core has that virtual coordinate.
func (c *Chip) Logical(virtual XY) (Core, bool) {
	x, y := int(virtual.X), int(virtual.Y)
	if c.arch == Wormhole {
		x, y = x-wormholeTensix, y-wormholeTensix
	} else {
		switch {
		case x >= 1 && x <= 7:
			x--
		case x >= 10:
			x -= 3
		default:
			return Core{}, false
		}
		y -= 2
	}
	core := Core{x, y}
	return core, c.All().Contains(core)
}

// LogicalOf returns the logical core of a raw coordinate; false if it is harvested or no Tensix
// tile.
func (c *Chip) LogicalOf(raw XY) (Core, bool) {
	t := c.Tile(raw)
	if t.Kind != Tensix || t.Harvested {
		return Core{}, false
	}
	var core Core
	for core.X = 0; c.columns[core.X] != raw.X; core.X++ {
	}
	for core.Y = 0; c.rows[core.Y] != raw.Y; core.Y++ {
	}
	return core, true
}

func (c *Chip) outside(core Core) error {
	w, h := c.Grid()
	return &CoordinateError{c.arch, "logical", core.X, core.Y, fmt.Sprintf("the chip has %d x %d workers", w, h)}
}

// VirtualRect is a rectangle of virtual coordinates for a multicast, Start at the smaller ones, and
// the number of Tensix tiles that it reaches.
type VirtualRect struct {
	Start, End XY
	Cores      int
}

// Corners returns the corners in the order of a request on n: NoC 1 runs the other way
// (tt-isa-documentation WormholeB0/NoC/Coordinates.md).
func (r VirtualRect) Corners(n NOC) (start, end XY) {
	if n == NOC1 {
		return r.End, r.Start
	}
	return r.Start, r.End
}

// Rects returns rectangles of virtual coordinates that cover exactly the cores of r, for
// multicasts: one, since routers skip columns and rows without working Tensix tiles
// ([Chip.MulticastSkip]), or nil if r is empty or leaves the grid.
func (c *Chip) Rects(r Range) []VirtualRect {
	all := c.All()
	if r.Empty() || !all.Contains(r.Start) || !all.Contains(r.End) {
		return nil
	}
	return []VirtualRect{{c.virtual(r.Start), c.virtual(r.End), r.Size()}}
}

// MulticastSkip returns the raw NoC 0 columns and rows, a bit each, without working Tensix tiles,
// which routers leave out of multicasts.
func (c *Chip) MulticastSkip() (columns, rows uint32) {
	columns, rows = c.params.MulticastSkipColumns, c.params.MulticastSkipRows
	for i, u := range c.arch.harvestUnits() {
		if c.h.Tensix>>i&1 != 0 {
			if c.arch == Wormhole {
				rows |= 1 << u
			} else {
				columns |= 1 << u
			}
		}
	}
	return columns, rows
}

// PCIe returns the name of the PCIe tile in use on n: (19,24) on Blackhole, (0,3) on Wormhole and
// its mirror image (9,8) on NoC 1.
func (c *Chip) PCIe(n NOC) XY {
	if c.arch == Blackhole {
		return XY{blackholePCIeX, blackholePCIeY}
	}
	return c.onNOC(n, c.pcie)
}

// ARC returns the name of the ARC tile on NoC 0: (0,10) on Wormhole, (8,0) on Blackhole.
func (c *Chip) ARC() XY { return c.arch.arcTile() }

func (c *Chip) onNOC(n NOC, raw XY) XY {
	if n == NOC1 {
		return c.arch.Mirror(raw)
	}
	return raw
}

// Cover covers cores exactly: from each uncovered core as far right as possible, then down
// over whole rows.
func Cover(cores []Core) []Range {
	left := map[Core]bool{}
	for _, c := range cores {
		left[c] = true
	}
	sorted := slices.SortedFunc(slices.Values(cores), Core.Compare)
	var out []Range
	for _, c := range sorted {
		if !left[c] {
			continue
		}
		r := c.Range()
		for left[Core{X: r.End.X + 1, Y: c.Y}] {
			r.End.X++
		}
		for row := r.End.Y + 1; ; row++ {
			whole := true
			for x := r.Start.X; x <= r.End.X; x++ {
				whole = whole && left[Core{X: x, Y: row}]
			}
			if !whole {
				break
			}
			r.End.Y = row
		}
		for covered := range r.Cores() {
			delete(left, covered)
		}
		out = append(out, r)
	}
	return out
}

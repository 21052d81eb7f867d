package emu

import "github.com/reprise-tt/reprise/chip"

// A broadcast is a block in host memory that a Wormhole's Ethernet firmware writes to many tiles of
// several chips, its own among them. A header in front of the data names those that do not get it
// (tt-umd device/tt_device/ethernet_broadcast.cpp): words 0 to 2 racks and shelves, word 3 chips,
// word 4 rows and columns.
const (
	broadcastHeader     = 32
	broadcastTranslated = 1 << 15 // of word 4: rows and columns are those of translated coordinates
)

// grid is which chips and tiles a broadcast goes to.
type grid struct {
	chips      []*Chip
	not        uint32 // rows in bits 0 to 14, columns from bit 16 on
	translated bool
}

// untranslated are the rows and columns that a header has for translated coordinates from 16 on
// (tt-umd wormhole_implementation.hpp, TRANSLATED_TO_VIRTUAL_X and _Y).
var untranslated = struct{ x, y [12]uint8 }{[12]uint8{0, 5, 1, 2, 3, 4, 6, 7, 8, 9}, [12]uint8{0, 6, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11}}

// broadcastHead reads a broadcast's header and data from host memory. It reports whether the chip
// still works.
func (c *Chip) broadcastHead(a *remoteAccess, cmd []uint32) bool {
	h := remoteAccess{n: broadcastHeader, host: c.params.PCI.NOCBase + uint64(cmd[7])}
	header := make([]uint32, broadcastHeader/4+1)
	if !c.remoteData(&h, header, false) {
		return false
	}
	a.n, a.host = int(cmd[2])-broadcastHeader, h.host+broadcastHeader
	a.words = make([]uint32, span(a.addr, a.n)+1)
	a.grid = &grid{not: header[4], translated: header[4]&broadcastTranslated != 0}
	for _, o := range c.others {
		if id := &o.cfg.Identity; header[0]&1 == 0 && header[3]>>(8*id.X+id.Y)&1 == 0 { // all are on shelf 0 of rack 0
			a.grid.chips = append(a.grid.chips, o)
		}
	}
	return c.remoteData(a, a.words, false)
}

// broadcast has one chip after the other write its part. It reports whether the chip still works.
func (t *tile) broadcast(a *remoteAccess) bool {
	if len(a.grid.chips) == 0 {
		t.remoteDone(a, a.words)
		return t.serveRemote()
	}
	a.to, a.grid.chips = a.grid.chips[0], a.grid.chips[1:]
	t.ask(a, func() { t.broadcast(a) })
	return true
}

// has reports whether a tile of chip c is in the grid.
func (g *grid) has(c *Chip, xy chip.XY) bool {
	if g.translated {
		v, ok := c.topology.VirtualOf(xy)
		if !ok || v.X < 16 || v.Y < 16 || int(v.X-16) >= c.params.GridWidth || int(v.Y-16) >= c.params.GridHeight {
			return false
		}
		xy = chip.XY{X: untranslated.x[v.X-16], Y: untranslated.y[v.Y-16]}
	}
	return g.not>>xy.Y&1 == 0 && g.not>>(16+xy.X)&1 == 0
}

// spread writes a broadcast's data to the tiles of this chip that it is for. Harvested ones take
// nothing.
func (c *Chip) spread(a *remoteAccess) bool {
	for y := range c.grid {
		for x := range c.grid[y] {
			ep := &c.grid[y][x]
			if ep.harvested || !a.grid.has(c, ep.xy) {
				continue
			}
			switch ep.kind {
			case chip.Tensix, chip.Ethernet, chip.DRAM:
				if !c.writeTile(origin{}, "ethernet firmware", 0, ep, a.addr, a.n, a.words) {
					return false
				}
			default:
				c.refuse(origin{}, UnimplementedFunctionality, "ethernet firmware", a.addr,
					"broadcast to tile %v (%v): want workers, Ethernet and DRAM tiles only", ep.xy, ep.kind)
				return false
			}
		}
	}
	return true
}

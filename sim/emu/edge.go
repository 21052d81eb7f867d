package emu

import (
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/arc"
)

// edgeNIU loads a register of an NIU of a tile without processors. A host finds all but its
// identity zero.
func (c *Chip) edgeNIU(o origin, raw chip.XY, noc int, off uint64) (uint32, bool) {
	switch off {
	case uint64(c.layout.nodeID):
		return c.nodeID(raw, noc), true
	case 0x100:
		return 1 << 14, true
	case uint64(c.layout.logical):
		if v, ok := c.logicalNode(raw); ok {
			return v.Packed(), true
		}
	}
	return 0, o.isHostLoad() && off < 4*uint64(c.layout.stride)
}

// logicalNode is the translated coordinate of a tile without processors. On Wormhole columns 0 and
// 5, and rows 0 and 6, are 16 and 17; other rows follow the workers' from 18 on, harvested ones
// last (tt-umd tests/api/test_noc.cpp, compute_wormhole_dram_translated_coord).
func (c *Chip) logicalNode(raw chip.XY) (chip.XY, bool) {
	const left, middle, row = 0, 5, 6 // without workers
	if !c.wormhole() || raw.X != left && raw.X != middle {
		return c.topology.VirtualOf(raw)
	}
	v := chip.XY{X: 16 + raw.X/middle, Y: 16}
	switch raw.Y {
	case 0:
		return v, true
	case row:
		v.Y++
		return v, true
	}
	rows := make([]uint8, 0, 10)
	for _, harvested := range []bool{false, true} {
		for y := range uint8(12) {
			if t := c.topology.Tile(chip.XY{X: 1, Y: y}); t.Kind == chip.Tensix && t.Harvested == harvested {
				rows = append(rows, y)
			}
		}
	}
	v.Y = 18 + uint8(slices.Index(rows, raw.Y))
	return v, true
}

// dramProcessor is set in NoC addresses of what a Blackhole DRAM tile's processor sees, NIUs too
// (tt-exalens hardware/blackhole/dram_block.py).
const dramProcessor = 1 << 40

// niuAt returns the offset of an address in the NIU of a tile without processors (tt-umd
// *_implementation.hpp, NOC0_CONTROL_REG_ADDR_BASE_MAP and NOC1_).
func (c *Chip) niuAt(kind chip.TileKind, addr uint64) (uint64, bool) {
	base := uint64(0xFFFF_FFFF_FF00_0000)
	switch {
	case c.wormhole() && kind == chip.RouterOnly:
		base = niu0Base
	case c.wormhole():
		base = 0xF_0000_0000 | niu0Base
	case kind == chip.DRAM:
		addr &^= dramProcessor
		base = niu0Base
		if addr >= niu1Base {
			base = niu1Base
		}
	case kind == chip.RouterOnly && addr < base: // in either place
		base = 0xFF00_0000
	}
	return addr - base, addr >= base && addr-base < 4*uint64(c.layout.stride)
}

// harvestedNIU returns the NIU register of a harvested tile at an address: such routers work, and
// hosts load their identity (tt-umd tests/api/test_noc.cpp, TestNocValidity).
func (c *Chip) harvestedNIU(ep *endpoint, addr uint64) (niu int, off uint64, ok bool) {
	if ep.kind == chip.DRAM && c.blackhole() {
		addr &^= dramProcessor
	}
	for niu, base := range []uint64{niu0Base, niu1Base} {
		if off := addr - base; addr >= base && off < 4*uint64(c.layout.stride) {
			return niu, off, true
		}
	}
	if off, ok := c.niuAt(ep.kind, addr); ok {
		return 0, off, true
	}
	if base := uint64(0xFF00_0000); c.blackhole() && addr >= base && addr < base+4*uint64(c.layout.stride) {
		return 0, addr - base, true
	}
	return 0, 0, false
}

// showsNIU reports a host's load of an NIU register of a tile without processors.
func (c *Chip) showsNIU(o origin, kind chip.TileKind, addr uint64, n int) bool {
	_, ok := c.niuAt(kind, addr)
	return ok && o.isHostLoad() && n == 4 && addr&3 == 0
}

func (c *Chip) readNIU(o origin, ep *endpoint, noc int, addr uint64, buf []uint32) (ok bool) {
	off, _ := c.niuAt(ep.kind, addr)
	if ep.kind == chip.DRAM { // its two NIUs have an address each
		noc = int(addr >> 16 & 1)
	}
	buf[0], ok = c.edgeNIU(o, ep.xy, noc, off)
	return ok
}

// tileNIUHas reports whether an NIU of a tile with processors has a register at off
// (tt-isa-documentation */NoC/MemoryMap.md).
func (c *Chip) tileNIUHas(off uint32) bool {
	if off >= 4*c.layout.stride {
		return false
	}
	r := off % c.layout.stride // of an initiator; all have identification and status
	if c.wormhole() {
		return r < 0x34 || off == 0x50 || off == 0x54 || off >= 0x200 && off < 0x400
	}
	return r < 0x4C || off == 0x60 || r >= 0x64 && r < 0x6C || off >= 0x100 && off < 0x180 || off >= 0x200 && off < 0x600
}

// firmware is what the ARC firmware knows of the chip.
func (c *Chip) firmware() arc.Config {
	id := &c.cfg.Identity
	cfg := arc.Config{Arch: c.arch, Harvesting: c.cfg.Harvesting, Board: c.serial(), ASIC: 1, Location: id.Location, Ethernet: whEthVersion,
		Static: c.cfg.Synchronous}
	if id.Board != 0 {
		cfg.ASIC = id.ASIC
	}
	if c.blackhole() {
		cfg.Ethernet = bhEthVersion
	}
	return cfg
}

// serial is the board's number, by default of an n150 or a p150.
func (c *Chip) serial() uint64 {
	switch {
	case c.cfg.Identity.Board != 0:
		return c.cfg.Identity.Board
	case c.wormhole():
		return chip.BoardN150<<36 | 1
	}
	return chip.BoardP150<<36 | 1
}

func (c *Chip) readARC(o origin, where string, noc int, addr uint64, n int, buf []uint32) bool {
	if c.wormhole() && addr >= 0xF_FFB2_0000 && addr < 0xF_FFB4_0000 {
		if n != 4 || addr&0xFFFF&3 != 0 { // either NIU answers for its NoC (tt-umd tests/api/test_noc.cpp)
			return c.refuse(o, undefined, where, addr, "%d bytes of the ARC tile's NIU: want 4, aligned", n)
		}
		v, ok := c.edgeNIU(o, c.topology.ARC(), noc, addr&0xFFFF)
		if !ok {
			c.refuse(o, unimplemented, where, addr, "register %#x of the ARC tile's NIU", addr&0xFFFF)
		}
		buf[0] = v
		return ok
	}
	if c.blackhole() && c.showsNIU(o, chip.ARC, addr, n) {
		off, _ := c.niuAt(chip.ARC, addr)
		v, ok := c.edgeNIU(o, c.topology.ARC(), noc, off)
		buf[0] = v
		return ok
	}
	by := arc.Access{Host: o.tile == nil, Looks: o.isHostLoad(), Clock: c.clock,
		NIU: func(noc int, off uint64) (uint32, bool) { return c.edgeNIU(o, c.topology.ARC(), noc, off) }}
	return c.answered(o, where, addr, c.arc.Read(&by, addr, n, buf))
}

func (c *Chip) writeARC(o origin, where string, addr uint64, n int, buf []uint32) bool {
	return c.answered(o, where, addr, c.arc.Write(addr, n, buf))
}

func (c *Chip) answered(o origin, where string, addr uint64, r *arc.Refused) bool {
	if r != nil {
		c.refuse(o, r.Category, where, addr, "%s", r.Detail)
	}
	return r == nil
}

package emu

import (
	"bytes"
	"encoding/binary"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

func TestEthernetBroadcast(t *testing.T) {
	rigs, h := remotePair(t)
	r := rigs[0]
	g := newGateway(r)
	const addr, n, broadcast = 0x20000, 4096, remoteWriteRequest | remoteData | remoteDataDRAM | remoteBroadcast
	cast := func(racks, chips, not uint32) {
		t.Helper()
		for i, w := range []uint32{^racks, ^uint32(0), ^uint32(0), ^chips, not, 0, 0, 0} {
			binary.LittleEndian.PutUint32(h.p[0x100+4*i:], w)
		}
		before := g.written()
		g.ask(addr, 0, broadcastHeader+n, broadcast, 0, 0, 0, 0x40100)
		g.eventually("the broadcast is done", func() bool { return g.written() == before+1 })
	}
	const workersOnly = 1<<(16+0) | 1<<(16+5) | 1<<0 | 1<<6 // columns of DRAM tiles, rows of Ethernet tiles
	const tensixColumns = 0b11_1101_1110 << 16
	for name, q := range map[string]struct {
		racks, chips, not uint32
		has               func(chip int, ep *endpoint, v chip.XY) bool
	}{
		"workers of both":      {1, 1<<0 | 1<<8, workersOnly, func(_ int, ep *endpoint, _ chip.XY) bool { return ep.kind == chip.Tensix }},
		"workers of the other": {1, 1 << 8, workersOnly, func(c int, ep *endpoint, _ chip.XY) bool { return c == 1 && ep.kind == chip.Tensix }},
		"DRAM in column 5": {1, 1<<0 | 1<<8, tensixColumns | 1<<16,
			func(_ int, ep *endpoint, _ chip.XY) bool { return ep.kind == chip.DRAM && ep.bank >= 2 }},
		"a row of Ethernet": {1, 1 << 0, 1<<16 | 1<<21 | 0x7FFE, func(c int, ep *endpoint, _ chip.XY) bool {
			return c == 0 &&
				ep.kind == chip.Ethernet && ep.xy.Y == 0
		}},
		"another rack":           {2, 1 << 0, workersOnly, func(int, *endpoint, chip.XY) bool { return false }},
		"a chip that isn't here": {1, 1 << 9, workersOnly, func(int, *endpoint, chip.XY) bool { return false }},
		// Columns 18 to 21 are 1 to 4 of a header, and rows 18 to 22 are 1 to 5.
		"translated": {1, 1<<0 | 1<<8, broadcastTranslated | workersOnly | 1<<(16+4) | 1<<5, func(_ int, ep *endpoint, v chip.XY) bool {
			return ep.kind == chip.Tensix && v.X != 21 && v.Y != 22
		}},
	} {
		for i, r := range rigs {
			for y := range r.c.grid {
				for x := range r.c.grid[y] {
					if ep := &r.c.grid[y][x]; castTo(ep) {
						r.c.writeTile(origin{}, "test", 0, ep, addr, 4, []uint32{uint32(i)})
					}
				}
			}
		}
		cast(q.racks, q.chips, q.not)
		for i, r := range rigs {
			for y := range r.c.grid {
				for x := range r.c.grid[y] {
					ep := &r.c.grid[y][x]
					if !castTo(ep) {
						continue
					}
					v, _ := r.topo.VirtualOf(ep.xy)
					buf, got := make([]uint32, n/4), make([]byte, n)
					r.c.readTile(origin{}, "test", 0, ep, addr, n, buf)
					word.Unpack(got, 0, buf)
					if has := bytes.Equal(got, h.p[0x120:0x120+n]); has != q.has(i, ep, v) {
						t.Errorf("%s: chip %d, %v tile %v has the data: %v", name, i, ep.kind, ep.xy, has)
					}
				}
			}
			r.healthy()
		}
	}
	g.ask(addr, 0, broadcastHeader, broadcast, 0, 0, 0, 0x40100)
	g.refused(unimplemented)
}

func castTo(ep *endpoint) bool {
	return !ep.harvested && (ep.kind == chip.Tensix || ep.kind == chip.Ethernet || ep.kind == chip.DRAM)
}

package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// A host reaches a Wormhole without a PCI interface by commands in the L1 of an Ethernet tile,
// whose base firmware carries them out (tt-umd device/chip/remote_chip, ttsim src/tile.cpp,
// fw/eth/eth_fw.c).
const (
	remoteRequests  = 0x11080
	remoteResponses = remoteRequests + 2*0xC0
	remoteWritten   = 0x00 // a count of writes done, twice
	remoteWrite     = 0x20 // next command, modulo 8
	remoteRead      = 0x30 // next to be taken
	remoteCommands  = 0x40 // four of 32 bytes: 48-bit address with chip and tile, data or size, flags; last where data are in host memory
	remoteBuffer    = 0x12000
	remoteBlock     = 1024
	remoteHostBlock = 32 << 10 // in host memory

	remoteWriteRequest = 1 << 0
	remoteReadRequest  = 1 << 2
	remoteReadData     = 1 << 3
	remoteDataDRAM     = 1 << 4
	remoteData         = 1 << 6
	remoteBroadcast    = 1 << 7 // a header names chips and tiles
	remoteNOC1         = 1 << 9
	remoteOrdered      = 1 << 12
)

// serveRemote carries out the next command, if any, false if the chip stopped.
func (t *tile) serveRemote() bool {
	c := t.chip
	wr, rd := t.l1[(remoteRequests+remoteWrite)/4]&7, t.l1[(remoteRequests+remoteRead)/4]&7
	if !c.cfg.Identity.Routing || t.ethernet().fw.asking != nil || t.ethernet().fw.stopped || rd == wr {
		return true
	}
	bad := c.refuser(origin{tile: t}, "ethernet firmware", remoteRequests)
	cmd := t.l1[(remoteRequests+remoteCommands)/4+rd%4*8:][:8]
	addr := uint64(cmd[0]) | uint64(cmd[1])<<32
	flags := cmd[3] &^ (remoteOrdered | remoteNOC1)
	a := &remoteAccess{rd: rd, noc: int(cmd[3] / remoteNOC1 & 1), xy: uint32(addr >> 36 & 0xFFF), addr: addr & (1<<36 - 1), n: 4,
		write: flags&remoteWriteRequest != 0}
	most := remoteBlock
	switch flags {
	case remoteReadRequest, remoteWriteRequest:
		a.words = []uint32{cmd[2], 0}
	case remoteReadRequest | remoteData | remoteDataDRAM, remoteWriteRequest | remoteData | remoteDataDRAM:
		most, a.host = remoteHostBlock, c.params.PCI.NOCBase+uint64(cmd[7])
		fallthrough
	case remoteReadRequest | remoteData, remoteWriteRequest | remoteData:
		if a.n = int(cmd[2]); a.n < 1 || a.n > most {
			return bad(unimplemented, "block of %d bytes: want 1 to %d", a.n, most)
		}
		a.words = make([]uint32, word.Span(a.addr, a.n)+1)
		switch {
		case !a.write:
		case a.host == 0:
			p := make([]byte, a.n)
			word.Unpack(p, 0, t.l1[(remoteBuffer+rd%4*remoteBlock)/4:])
			word.Pack(a.words, a.addr, p)
		case !c.remoteData(a, a.words, false):
			return false
		}
	case remoteWriteRequest | remoteData | remoteDataDRAM | remoteBroadcast:
		if n := int(cmd[2]) - broadcastHeader; n < 1 || n > remoteHostBlock-broadcastHeader {
			return bad(unimplemented, "broadcast of %d bytes: want 1 to %d after a header of %d", n, remoteHostBlock-broadcastHeader,
				broadcastHeader)
		}
		return c.broadcastHead(a, cmd) && t.broadcast(a)
	default:
		return bad(unimplemented, "command flags %#x: want a read or write of a word or block, or a broadcast", cmd[3])
	}
	x, y := uint8(addr>>48&63), uint8(addr>>54&63)
	if a.to = c.at(x, y); a.to == nil {
		return bad(unimplemented, "there is no chip at (%d,%d)", x, y)
	}
	t.ask(a, func() {
		t.remoteDone(a, a.words)
		t.serveRemote()
	})
	return true
}

// ask has the access's chip perform it, then runs done on this chip.
func (t *tile) ask(a *remoteAccess, done func()) {
	c := t.chip
	if !c.reaches(a.to) {
		return // the host's time runs out
	}
	t.ethernet().fw.asking = a
	perform := func(there *Chip) {
		if !there.remote(a) {
			return // no answer until that chip is reset
		}
		c.inbox.post(c, func(*Chip) {
			if now := c.ethTile(t.ethernet().channel); now == t && t.ethernet().fw.asking == a { // neither chip was reset
				done()
			}
		})
	}
	if a.write || a.to == c { // the host's own loads pace this chip
		a.to.inbox.post(a.to, perform)
		return
	}
	a.to.paced(perform)
}

// paced performs a read for another chip after as many slices as Config.Paced asks between two
// loads.
func (c *Chip) paced(f func(*Chip)) {
	c.inbox.post(c, func(c *Chip) {
		if c.cfg.paced() && c.steps < paceSteps && len(c.queue) > 0 {
			c.paced(f)
			return
		}
		c.steps = 0
		f(c)
	})
}

// loseRemote ends the command under way to a chip that was reset: it reads all ones.
func (t *tile) loseRemote(to *Chip) bool {
	a := t.ethernet().fw.asking
	if a == nil || a.to != to {
		return true
	}
	ones := make([]uint32, len(a.words)) // the other chip may still write to a.words
	for i := range ones {
		ones[i] = ^uint32(0)
	}
	t.remoteDone(a, ones)
	return t.serveRemote()
}

type remoteAccess struct {
	to    *Chip
	rd    uint32 // of the command
	noc   int
	host  uint64 // a block's place in host memory, by NoC address; 0 if it is in L1
	xy    uint32
	addr  uint64
	n     int
	write bool
	words []uint32 // the first starts with addr&3 bytes of padding
	grid  *grid    // of a broadcast
}

func (c *Chip) remote(a *remoteAccess) bool {
	if c.fault != nil {
		return false
	}
	if a.grid != nil {
		return c.spread(a)
	}
	ep := c.resolve(origin{}, "ethernet firmware", a.noc, a.xy)
	if ep == nil {
		return false
	}
	if a.write {
		return c.writeTile(origin{}, "ethernet firmware", a.noc, ep, a.addr, a.n, a.words)
	}
	return c.readTile(origin{loads: true}, "ethernet firmware", a.noc, ep, a.addr, a.n, a.words)
}

// remoteData moves a block between words and host memory. As on a bus, unmapped memory reads as all
// ones and takes nothing.
func (c *Chip) remoteData(a *remoteAccess, words []uint32, toHost bool) bool {
	const where = "ethernet firmware"
	if !c.cfg.RefuseUnmapped && !c.mapped(a.host, a.n) {
		for i := range words {
			if !toHost {
				words[i] = ^uint32(0)
			}
		}
		return c.fault == nil
	}
	at := c.topology.PCIe(chip.NOC0)
	ep := c.resolve(origin{}, where, 0, uint32(at.X)|uint32(at.Y)<<6)
	p := make([]byte, a.n)
	buf := make([]uint32, word.Span(a.host, a.n)+1)
	if !toHost {
		if !c.readPCIe(origin{}, where, ep, 0, a.host, a.n, buf) {
			return false
		}
		word.Unpack(p, a.host, buf)
		word.Pack(words, a.addr, p)
		return true
	}
	word.Unpack(p, a.addr, words)
	word.Pack(buf, a.host, p)
	return c.writePCIe(origin{}, where, ep, a.host, a.n, buf)
}

func (c *Chip) mapped(addr uint64, n int) bool {
	bus, ok := c.bus(origin{}, "ethernet firmware", addr, n)
	return ok && c.pcie.host != nil && c.pcie.host.ReadHost(bus, make([]byte, n)) == nil
}

func (t *tile) remoteDone(a *remoteAccess, words []uint32) {
	t.ethernet().fw.asking = nil
	if a.write {
		for i := uint32(0); i < 8; i += 4 {
			t.poke(remoteRequests+remoteWritten+i, t.l1[(remoteRequests+remoteWritten+i)/4]+1)
		}
	} else {
		w := t.l1[(remoteResponses+remoteWrite)/4] & 7
		slot := remoteResponses + remoteCommands + w%4*32
		switch {
		case a.host != 0:
			if !t.chip.remoteData(a, words, true) {
				return
			}
			t.poke(slot+12, remoteData|remoteReadData|remoteDataDRAM)
		case a.n == 4 && len(words) == 2:
			t.poke(slot+8, words[0])
			t.poke(slot+12, remoteReadData)
		default:
			p := make([]byte, a.n+3)
			word.Unpack(p[:a.n], a.addr, words)
			for i := 0; i < a.n; i += 4 {
				t.poke(remoteBuffer+w%4*remoteBlock+uint32(i), uint32(p[i])|uint32(p[i+1])<<8|uint32(p[i+2])<<16|uint32(p[i+3])<<24)
			}
			t.poke(slot+12, remoteData|remoteReadData)
		}
		t.poke(remoteResponses+remoteWrite, (w+1)&7)
	}
	t.poke(remoteRequests+remoteRead, (a.rd+1)&7)
}

func (c *Chip) at(x, y uint8) *Chip {
	for _, o := range c.others {
		if id := &o.cfg.Identity; id.X == x && id.Y == y {
			return o
		}
	}
	return nil
}

// RemoteFault returns the fault of the machine's chip at a place, or nil.
func (c *Chip) RemoteFault(x, y uint8) error {
	if o := c.at(x, y); o != nil {
		return o.Fault()
	}
	return nil
}

func (c *Chip) reaches(to *Chip) bool {
	seen := map[*Chip]bool{c: true}
	for next := []*Chip{c}; len(next) > 0; next = next[1:] {
		if next[0] == to {
			return true
		}
		for i := range next[0].ports {
			if p := &next[0].ports[i]; p.peer != nil && p.peer.chip != nil && p.up() && !seen[p.peer.chip] {
				seen[p.peer.chip] = true
				next = append(next, p.peer.chip)
			}
		}
	}
	return false
}

// A broadcast is a block in host memory that Ethernet firmware writes to tiles of several chips. A
// header in front names those left out (tt-umd device/tt_device/ethernet_broadcast.cpp): words 0 to
// 2 racks and shelves, word 3 chips, word 4 rows and columns.
const (
	broadcastHeader     = 32
	broadcastTranslated = 1 << 15 // of word 4
)

type grid struct {
	chips      []*Chip
	not        uint32 // rows in bits 0 to 14, columns from bit 16 on
	translated bool
}

// untranslated maps translated coordinates from 16 on to a header's rows and columns (tt-umd
// wormhole_implementation.hpp, TRANSLATED_TO_VIRTUAL_X and _Y).
var untranslated = struct{ x, y [12]uint8 }{[12]uint8{0, 5, 1, 2, 3, 4, 6, 7, 8, 9}, [12]uint8{0, 6, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11}}

func (c *Chip) broadcastHead(a *remoteAccess, cmd []uint32) bool {
	h := remoteAccess{n: broadcastHeader, host: c.params.PCI.NOCBase + uint64(cmd[7])}
	header := make([]uint32, broadcastHeader/4+1)
	if !c.remoteData(&h, header, false) {
		return false
	}
	a.n, a.host = int(cmd[2])-broadcastHeader, h.host+broadcastHeader
	a.words = make([]uint32, word.Span(a.addr, a.n)+1)
	a.grid = &grid{not: header[4], translated: header[4]&broadcastTranslated != 0}
	for _, o := range c.others {
		if id := &o.cfg.Identity; header[0]&1 == 0 && header[3]>>(8*id.X+id.Y)&1 == 0 { // all are on shelf 0 of rack 0
			a.grid.chips = append(a.grid.chips, o)
		}
	}
	return c.remoteData(a, a.words, false)
}

// broadcast has one chip after another write its part.
func (t *tile) broadcast(a *remoteAccess) bool {
	if len(a.grid.chips) == 0 {
		t.remoteDone(a, a.words)
		return t.serveRemote()
	}
	a.to, a.grid.chips = a.grid.chips[0], a.grid.chips[1:]
	t.ask(a, func() { t.broadcast(a) })
	return true
}

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

// spread writes a broadcast to this chip's tiles, except harvested ones.
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
				return c.refuse(origin{}, unimplemented, "ethernet firmware", a.addr,
					"broadcast to tile %v (%v): want workers, Ethernet and DRAM tiles only", ep.xy, ep.kind)
			}
		}
	}
	return true
}

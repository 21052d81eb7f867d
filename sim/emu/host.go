package emu

import (
	"encoding/binary"
	"runtime"
	"time"

	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu/internal/arc"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// AttachDMA connects the chip to host memory, before any access to it.
func (c *Chip) AttachDMA(d DMA) {
	c.acquire()
	c.pcie.host = d
	c.pcie.peers, _ = d.(driver.PeerDMA)
	c.pcie.attend = c.attend
	c.release()
}

// BARLoad loads 1, 2, 4 or 8 bytes at an offset of BAR 0, 2 or 4; all-ones from a stopped chip.
func (c *Chip) BARLoad(bar int, off uint64, width int) uint64 {
	if c.faulted.Load() {
		return allOnes(width)
	}
	select {
	case <-c.tok:
		c.takePosted()
	default:
		if v, ok := c.ask(bar, off, width); ok {
			return v
		}
		c.acquire()
	}
	c.pace()
	v := c.load(bar, off, width)
	c.saw(bar, off, v)
	return v
}

func digest(p []byte) (v uint64) {
	for _, b := range p[:min(len(p), 64)] {
		v = v*0x100000001B3 ^ uint64(b) // FNV-1
	}
	return v
}

func (c *Chip) load(bar int, off uint64, width int) uint64 {
	if v := c.loadBAR(bar, off, width); c.fault == nil {
		return v
	}
	return allOnes(width)
}

func allOnes(width int) uint64 { return ^uint64(0) >> (64 - 8*uint(width)) }

// BARStore stores 1, 2, 4 or 8 bytes. It is posted: later accesses don't overtake it, but it may
// return before the chip has seen it. It does not allocate.
func (c *Chip) BARStore(bar int, off uint64, width int, v uint64) {
	if c.faulted.Load() {
		return
	}
	if c.cfg.Awake && !c.cfg.Synchronous { // the loop polls: don't even take a channel's lock
		if place, ok := c.posted.reserve(); ok {
			c.posted.fill(place, hostAccess{off: off, v: v, bar: uint8(bar), width: int8(width)})
			return
		}
	}
	c.storeOrPost(bar, off, width, v)
}

// storeOrPost is BARStore where reserve failed or can't be used. Hosts of an awake chip push first,
// which tells reserve what was taken.
func (c *Chip) storeOrPost(bar int, off uint64, width int, v uint64) {
	a := hostAccess{off: off, v: v, bar: uint8(bar), width: int8(width)}
	if c.cfg.Awake && !c.cfg.Synchronous && c.posted.push(a) {
		return
	}
	if c.news.Load() {
		c.acquire()
		c.react()
		c.store(bar, off, width, v)
		c.release()
		return
	}
	select {
	case <-c.tok:
		c.takePosted()
	default:
		if !c.cfg.Synchronous && c.posted.push(a) {
			c.wakeLoop()
			return
		}
		c.acquire()
	}
	c.store(bar, off, width, v)
	c.release()
}

// BARRead moves bulk data from a TLB window of BAR 0 or 4, or reads words of 4 bytes elsewhere.
func (c *Chip) BARRead(bar int, off uint64, p []byte) {
	if len(p) == 0 {
		return
	}
	c.acquire()
	c.readBAR(bar, off, p)
	c.saw(bar, off, digest(p))
}

func (c *Chip) readBAR(bar int, off uint64, p []byte) {
	if c.fault == nil && c.inBAR(bar, off, len(p)) {
		if bar0, ok := c.inWindows(bar, off); ok {
			c.windowRead(bar, bar0, p)
		} else {
			for i := 0; i < len(p) && c.fault == nil; i += 4 {
				n := min(4, len(p)-i)
				v := c.loadBAR(bar, off+uint64(i), n)
				for j := range n {
					p[i+j] = byte(v >> (8 * j))
				}
			}
		}
	}
	if c.fault != nil {
		fill(p, 0xFF)
	}
}

// BARWrite moves bulk data to a TLB window of BAR 0 or 4, or writes words of 4 bytes elsewhere.
func (c *Chip) BARWrite(bar int, off uint64, p []byte) {
	if len(p) == 0 || c.faulted.Load() {
		return
	}
	c.acquire()
	defer c.release()
	c.react()
	c.writeBAR(bar, off, p)
}

func (c *Chip) writeBAR(bar int, off uint64, p []byte) {
	if c.fault != nil || !c.inBAR(bar, off, len(p)) {
		return
	}
	if bar0, ok := c.inWindows(bar, off); ok {
		c.windowWrite(bar, bar0, p)
		return
	}
	for i := 0; i < len(p) && c.fault == nil; i += 4 {
		n, v := min(4, len(p)-i), uint64(0)
		for j := range n {
			v |= uint64(p[i+j]) << (8 * j)
		}
		c.store(bar, off+uint64(i), n, v)
	}
}

// inWindows reports whether an offset is in a TLB window. It returns the offset in BAR 0, whose
// last 32 MiB Wormhole's BAR 4 shows.
func (c *Chip) inWindows(bar int, off uint64) (uint64, bool) {
	if c.wormhole() {
		if bar == 4 {
			off += 0x1E000000
		}
		return off, bar != 2 && off < 0x1F000000
	}
	return off, bar == 0 && off < 202<<21 || bar == 4 && off < 8<<32
}

func (c *Chip) loadBAR(bar int, off uint64, width int) uint64 {
	if !c.inBAR(bar, off, width) {
		return 0
	}
	o, ok := c.inWindows(bar, off)
	if ok {
		c.hostBytes = [8]byte{}
		c.windowRead(bar, o, c.hostBytes[:width])
		return binary.LittleEndian.Uint64(c.hostBytes[:])
	}
	if (width != 4 || off&3 != 0) && !c.cfg.RefuseUnmapped {
		return c.loadWords(bar, off, width)
	}
	if bar == 2 {
		if c.width4("bar2", off, width) {
			return uint64(c.bar2Load(off))
		}
		return 0
	}
	off = o
	if addr, ok := c.arcInBAR(off); ok {
		buf := c.words(2)
		if c.readARC(origin{loads: true}, "bar0", 0, addr, width, buf) {
			c.hostBytes = [8]byte{}
			word.Unpack(c.hostBytes[:width], addr, buf)
			return binary.LittleEndian.Uint64(c.hostBytes[:])
		}
		return 0
	}
	if v, ok := c.pcieInBAR(off, width); ok {
		return v
	}
	if c.hiddenARC(off) {
		return 0
	}
	c.refuse(origin{}, unimplemented, "bar0", off, "load of %d bytes: nothing that is emulated answers there", width)
	return 0
}

func (c *Chip) loadWords(bar int, off uint64, width int) (v uint64) {
	for at := off &^ 3; at < off+uint64(width) && c.fault == nil; at += 4 {
		w := c.loadBAR(bar, at, 4)
		if at < off {
			v |= w >> (8 * (off - at))
		} else {
			v |= w << (8 * (at - off))
		}
	}
	return v & (^uint64(0) >> (64 - 8*uint(width)))
}

func (c *Chip) store(bar int, off uint64, width int, v uint64) {
	if c.fault != nil || !c.inBAR(bar, off, width) {
		return
	}
	o, ok := c.inWindows(bar, off)
	if ok {
		binary.LittleEndian.PutUint64(c.hostBytes[:], v)
		c.windowWrite(bar, o, c.hostBytes[:width])
		return
	}
	if bar == 2 {
		if c.width4("bar2", off, width) {
			c.bar2Store(off, uint32(v))
		}
		return
	}
	off = o
	regs := uint64(c.params.BAR.WindowRegs)
	if off >= regs && off+uint64(width) <= regs+4*uint64(len(c.tlb)) {
		c.windowConfig(off-regs, width, v)
		return
	}
	if addr, ok := c.arcInBAR(off); ok {
		buf := c.words(2)
		buf[0], buf[1] = uint32(v)<<(8*(addr&3)), uint32(v>>32)
		c.writeARC(origin{}, "bar0", addr, width, buf)
		return
	}
	if c.hiddenARC(off) {
		return
	}
	c.refuse(origin{}, unimplemented, "bar0", off, "store of %d bytes: nothing that is emulated answers there", width)
}

// hiddenARC reports an offset at which other Blackholes show an ARC register. tt-umd's tests access
// it on all of them (ClusterWarmResetScratchMethodTest) and expect nothing.
func (c *Chip) hiddenARC(off uint64) bool {
	apb := uint64(c.params.BAR.ARCAPB)
	return c.blackhole() && !c.cfg.RefuseUnmapped && off >= apb && off < apb+arc.APBBytes
}

func (c *Chip) width4(where string, off uint64, width int) bool {
	if width == 4 && off&3 == 0 {
		return true
	}
	return c.refuse(origin{}, unsupported, where, off, "access of %d bytes: want 4, aligned", width)
}

func (c *Chip) inBAR(bar int, off uint64, width int) bool {
	if bar >= 0 && bar < 6 && uint64(width) <= c.params.PCI.BARSize[bar] && off <= c.params.PCI.BARSize[bar]-uint64(width) {
		return true
	}
	return c.refuse(origin{}, undefined, "bar", off, "access of %d bytes beyond BAR %d", width, bar)
}

// arcInBAR returns the NoC address of what BAR 0 shows of the ARC tile. Blackhole shows registers
// only, and only with its PCIe tile in column 11 (tt-umd blackhole_tt_device.cpp,
// is_arc_available_over_axi).
func (c *Chip) arcInBAR(off uint64) (uint64, bool) {
	csm, apb := uint64(c.params.BAR.ARCCSM), uint64(c.params.BAR.ARCAPB)
	switch {
	case c.blackhole():
		return arc.APB + off - apb, off >= apb && off < apb+arc.APBBytes && c.cfg.Harvesting.SecondPCIe
	case off >= csm && off < csm+arc.CSMBytes:
		return 0x8_0000_0000 + arc.CSM + off - csm, true
	case off >= apb && off < apb+arc.APBBytes:
		return 0x8_0000_0000 + arc.APB + off - apb, true
	}
	return 0, false
}

// patience is how long a host polls for an answer before it asks for the token; nearly all slices
// take less.
const patience = 50 * time.Microsecond

// ask leaves a load to the token's holder and polls for the answer. Taking the token instead would
// stall the chip's goroutine and move its work to another processor with cold caches.
func (c *Chip) ask(bar int, off uint64, width int) (value uint64, ok bool) {
	if !c.polls || c.cfg.Paced {
		return 0, false
	}
	i := c.freeAnswer()
	if i < 0 {
		return 0, false
	}
	a := &c.answers[i]
	if ok = c.posted.push(hostAccess{off: off, v: uint64(i), bar: uint8(bar), width: -int8(width)}); ok {
		c.awaitAnswer(a)
		value = a.value
	}
	a.state.Store(answerFree)
	return value, ok
}

func (c *Chip) freeAnswer() int {
	for i := range c.answers {
		if s := &c.answers[i].state; s.Load() == answerFree && s.CompareAndSwap(answerFree, answerAwaited) {
			return i
		}
	}
	return -1
}

func (c *Chip) awaitAnswer(a *answer) {
	begun := time.Now()
	for n := 1; a.state.Load() != answerGiven; n++ {
		if n%spins != 0 {
			continue
		}
		select {
		case <-c.tok: // no other goroutine is about to answer
			c.takePosted()
			c.release()
		default:
			if time.Since(begun) > patience {
				c.acquire()
				c.release()
			} else {
				runtime.Gosched() // the chip's goroutine may wait for a processor
			}
		}
	}
}

func (c *Chip) access(a hostAccess) {
	if a.width > 0 {
		c.store(int(a.bar), a.off, int(a.width), a.v)
		return
	}
	to := &c.answers[a.v]
	to.value = c.load(int(a.bar), a.off, -int(a.width))
	to.state.Store(answerGiven)
}

// ConfigRead reads the word of PCI configuration space at off, a multiple of 4. Unknown words are
// zero, as an empty capability.
func (c *Chip) ConfigRead(off uint32) uint32 {
	c.acquire()
	defer c.release()
	return c.configRead(off)
}

func (c *Chip) configRead(off uint32) uint32 {
	p, pci := &c.pcie, &c.params.PCI
	switch off {
	case 0x00:
		return uint32(pci.Vendor) | uint32(pci.Device)<<16
	case 0x04:
		return p.command
	case 0x08:
		return pci.Class<<8 | uint32(pci.Revision)
	case 0x0C:
		return p.cacheLine
	case 0x10, 0x14, 0x18, 0x1C, 0x20, 0x24:
		return p.bar[(off-0x10)/4]
	case 0x2C: // the kind of board
		return uint32(pci.Vendor) | uint32(uint16(c.serial()>>36))<<16
	case 0x3C:
		return p.interrupt
	}
	return 0
}

// ConfigWrite writes command, cache line, BARs (for sizing) or interrupt line, and ignores other
// words.
func (c *Chip) ConfigWrite(off, v uint32) {
	c.acquire()
	defer c.release()
	p := &c.pcie
	set := func(w *uint32, mask uint32) { *w = *w&^mask | v&mask }
	switch off {
	case 0x04:
		set(&p.command, 0xFFFF)
	case 0x0C:
		set(&p.cacheLine, 0xFFFF)
	case 0x3C:
		set(&p.interrupt, 0xFF)
	case 0x10, 0x14, 0x18, 0x1C, 0x20, 0x24:
		i := (off - 0x10) / 4
		mask := ^(c.params.PCI.BARSize[i&^1] - 1)
		set(&p.bar[i], uint32(mask>>(32*(i&1))))
	}
}

// pcieInBAR loads window configuration and the PCIe tile's NIUs from BAR 0 (tt-isa-documentation
// WormholeB0/PCIExpressTile/README.md; tt-kmd wormhole.c and blackhole.c).
func (c *Chip) pcieInBAR(off uint64, width int) (uint64, bool) {
	const from, to = 0x1FC00000, 0x1FE00000
	if off < from || off >= to {
		return 0, false
	}
	if !c.width4("bar0", off, width) {
		return 0, true
	}
	if i := (off - uint64(c.params.BAR.WindowRegs)) / 4; off >= uint64(c.params.BAR.WindowRegs) && i < uint64(len(c.tlb)) {
		return uint64(c.tlb[i]), true
	}
	niu := c.params.BAR.NIU
	places := [][2]uint32{niu}
	if c.wormhole() {
		places = append(places, [2]uint32{0x1FD02000, 0x1FD0A000})
	}
	for _, p := range places {
		for noc, base := range p {
			if at := off - uint64(base); off >= uint64(base) && at < 4*uint64(c.layout.stride) {
				if v, ok := c.pcieNIU(origin{loads: true}, noc, at); ok {
					return uint64(v), true
				}
			}
		}
	}
	return 0, true
}

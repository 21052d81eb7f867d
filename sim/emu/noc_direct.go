package emu

import "github.com/reprise-tt/reprise/chip"

// On a chip that checks nothing of memory, and on which requests take no time, nothing comes
// between the steps of a request. The most frequent ones are performed here in one piece. What they
// do is what accept, leave, drain, arrive and respond do one after the other, and what those would
// refuse is left to them.

// direct performs the request of a command buffer, which a core of the tile starts, and reports
// whether it is one that can be performed here: a read or write between L1 of two Tensix tiles, or
// of L1 and DRAM, a multicast to L1, or an inline write to a register.
func (t *tile) direct(k *core, noc int, b *cmdBuf) (st slowResult, ok bool) {
	c, u := t.chip, &t.niu[noc]
	id := b[bufTag] >> 10 & 15
	if !c.atOnce || t.kind != chip.Tensix || u.unfinished || u.open[id] >= 255 {
		return 0, false
	}
	targ, ret := uint64(b[bufTargMid])<<32|uint64(b[bufTargLo]), uint64(b[bufRetMid])<<32|uint64(b[bufRetLo])
	targXY, retXY := b[bufTargHi], b[bufRetHi]
	if c.arch == chip.Wormhole {
		targXY, retXY = uint32(targ>>36), uint32(ret>>36)
		targ, ret = targ&(1<<36-1), ret&(1<<36-1)
	}
	ctrl, n := b[bufCtrl], uint64(b[bufLenBE])
	posted := b2u(ctrl&ctrlMarked == 0)
	kind := ctrl &^ (ctrlMarked | ctrlStaticVC | ctrlVC)
	if t.outbox != nil && kind&^ctrlWrite != 0 { // it leaves the tile when the window ends
		return 0, false
	}
	switch kind {
	case 0:
		ok = posted == 0 && t.hasCoord(noc, retXY) && t.readAtOnce(u, noc, c.known(noc, targXY), targ, ret, n)
	case ctrlWrite:
		ok = t.hasCoord(noc, targXY) && t.writeAtOnce(u, noc, id, posted, c.known(noc, retXY), targ, ret, n)
	case ctrlWrite | ctrlBroadcast | ctrlPathReserve:
		ok = t.hasCoord(noc, targXY) && t.multicastAtOnce(u, noc, id, posted, [2]*endpoint{c.known(noc, retXY>>12), c.known(noc, retXY&0xFFF)},
			targ, ret, n)
	case ctrlWrite | ctrlInline:
		if to := c.known(noc, targXY); to != nil && to.tile != nil && to.kind == chip.Tensix && targ >= localBase && targ <= 0xFFFFFFFF &&
			targ&3 == 0 && t.hasCoord(noc, retXY) {
			u.wrote(id, posted, 0, 1)
			t.changed(classNIU0 << noc)
			mergeTime(&to.tile.newest, &t.newest)
			if st := to.tile.store(origin{tile: t, core: k, remote: true}, uint32(targ), b[bufData]); st != slowDone {
				return slowHalt, true
			}
			c.moved += 4
			to.tile.countWrite(noc, c.flits(4), posted)
			ok = true
		}
	}
	if ok {
		u.unread |= 1 << id
		u.unsent |= 1 << id
	}
	return slowDone, ok
}

// known returns what a coordinate means, or nil if it was not used so far or is none.
func (c *Chip) known(noc int, coord uint32) *endpoint {
	if coord >= uint32(len(c.routes[noc])) {
		return nil
	}
	return c.routes[noc][coord].Load()
}

// hasCoord reports whether a coordinate is known as one of the tile's, most likely that which it
// has in NOC_ID_LOGICAL.
func (t *tile) hasCoord(noc int, coord uint32) bool {
	if coord == t.id[noc] {
		return true
	}
	ep := t.chip.known(noc, coord)
	return ep != nil && ep.tile == t
}

// inL1 reports whether n bytes at addr are in the tile's L1.
func (t *tile) inL1(addr, n uint64) bool { return addr < uint64(t.size) && addr+n <= uint64(t.size) }

// readAtOnce performs a read.
func (t *tile) readAtOnce(u *niu, noc int, from *endpoint, at, to, n uint64) bool {
	c := t.chip
	if from == nil || from.harvested || n-1 >= uint64(c.params.MaxBurst) || !t.inL1(to, n) {
		return false
	}
	var (
		data   []uint32
		newest *uint64
		mask   = uint64(15)
	)
	switch {
	case t.outbox != nil && !t.outbox.readsNow(from, at, n):
	case from.kind == chip.DRAM:
		d := c.drams[from.bank]
		mask = uint64(c.params.Align.DRAMRead) - 1
		data, newest = d.view(at, int(n)), &d.newest
	case from.kind == chip.Tensix && from.tile != t && from.tile.inL1(at, n):
		data, newest = from.tile.memory(uint32(at + n))[at>>2:][:span(at, int(n))], &from.tile.newest
	}
	if data == nil || (at^to)&mask != 0 {
		return false
	}
	flits := c.flits(int(n))
	s := &u.count
	s[cntAccepted]++
	s[cntReadStarted]++
	s[cntReadSent]++
	s[cntReadResp]++
	s[cntReadWords] += flits
	t.changed(classNIU0 << noc)
	t.moved(n)
	if f := from.tile; f != nil {
		s := &f.niuWords[noc].count
		s[cntSlaveAccepted]++
		s[cntSlaveRead]++
		s[cntSlaveReadResp]++
		s[cntSlaveReadWords] += flits
		f.changed(classServed0 << noc)
	}
	mergeTime(&t.newest, newest)
	t.take(uint32(to), int(n), data)
	return true
}

// moved counts bytes over NoCs.
func (t *tile) moved(n uint64) {
	if b := t.outbox; b != nil {
		b.moved += n
	} else {
		t.chip.moved += n
	}
}

// wrote counts a write at the tile that started it.
func (u *niu) wrote(id, posted, words, acks uint32) {
	s := &u.count
	s[cntAccepted]++
	s[cntWriteStarted+posted]++
	s[cntWriteSent+posted]++
	s[cntWriteWords+posted] += words
	if posted == 0 {
		s[cntWriteAck] += acks
		u.bump8(cntOutstanding+id, 1-acks)
	}
}

// writeAtOnce performs a write.
func (t *tile) writeAtOnce(u *niu, noc int, id, posted uint32, to *endpoint, from, at, n uint64) bool {
	c := t.chip
	if to == nil || to.harvested || n-1 >= uint64(c.params.MaxBurst) || !t.inL1(from, n) || (from^at)&15 != 0 {
		return false
	}
	flits := c.flits(int(n))
	data := t.memory(uint32(from + n))[from>>2:][:span(from, int(n))]
	switch {
	case t.outbox != nil:
		b := t.outbox
		if !b.storesSoon(to, at) || at+n > c.drams[to.bank].size {
			return false
		}
		u.wrote(id, posted, flits, 1)
		t.changed(classNIU0 << noc)
		b.store(to.bank, at, int(n), append(b.room(len(data))[:0], data...))
		return true
	case to.kind == chip.DRAM && at < c.drams[to.bank].size && at+n <= c.drams[to.bank].size:
		d := c.drams[to.bank]
		u.wrote(id, posted, flits, 1)
		t.changed(classNIU0 << noc)
		mergeTime(&d.newest, &t.newest)
		d.write(at, int(n), data)
	case to.kind == chip.Tensix && to.tile != t && to.tile.inL1(at, n):
		u.wrote(id, posted, flits, 1)
		t.changed(classNIU0 << noc)
		mergeTime(&to.tile.newest, &t.newest)
		to.tile.take(uint32(at), int(n), data)
		to.tile.countWrite(noc, flits, posted)
	default:
		return false
	}
	c.moved += n
	return true
}

// multicastAtOnce performs a multicast to a rectangle that has been accepted before.
func (t *tile) multicastAtOnce(u *niu, noc int, id, posted uint32, corners [2]*endpoint, from, at, n uint64) bool {
	c := t.chip
	if corners[0] == nil || corners[1] == nil || n-1 >= uint64(c.params.MaxBurst) || !t.inL1(from, n) || !t.inL1(at, n) || (from^at)&15 != 0 {
		return false
	}
	start, end := corners[noc].xy, corners[1-noc].xy
	all := u.recipients
	if all == nil || all.rect != [4]uint8{start.X, start.Y, end.X, end.Y} {
		return false
	}
	flits := c.flits(int(n))
	data := t.memory(uint32(from + n))[from>>2:][:span(from, int(n))]
	t.changed(classNIU0 << noc)
	for _, to := range all.tiles {
		mergeTime(&to.newest, &t.newest)
		to.take(uint32(at), int(n), data)
		to.countWrite(noc, flits, posted)
	}
	u.wrote(id, posted, flits, uint32(len(all.tiles)))
	c.moved += n * uint64(len(all.tiles))
	return true
}

// take puts what a request brings into L1, of which nothing is checked. Kernels are often brought
// anew as they were: what is there is kept, decoded and translated.
func (t *tile) take(addr uint32, n int, data []uint32) {
	l1 := t.memory(addr + uint32(n))
	if (addr|uint32(n))&3 != 0 {
		merge(l1, uint64(addr), data, n)
		t.stored(addr, n)
		return
	}
	data = data[:n>>2]
	there := l1[addr>>2:][:len(data)]
	if t.flags[addr>>lineShift]&flagCode != 0 && equal(there, data) {
		return
	}
	copy(there, data)
	for line := addr >> lineShift; line <= (addr+uint32(n)-1)>>lineShift; line++ {
		if t.flags[line]&(flagCode|flagWatch) != 0 {
			t.touched(line)
		}
	}
}

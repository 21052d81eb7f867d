package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// direct performs the request in a command buffer in one piece, if no check watches and requests
// take no time, for copies between L1 and workers' L1 or DRAM and words to workers' registers.
// start, of the same effect, performs the others and refuses what is wrong.
func (t *tile) direct(o origin, noc int, b *cmdBuf) (st slowResult, ok bool) {
	c, u, id := t.chip, &t.niu[noc], b[bufTag]>>10&15
	ctrl, n := b[bufCtrl], uint64(b[bufLenBE])
	kind := ctrl &^ (ctrlMarked | ctrlStaticVC | ctrlVC)
	if !c.inPlace || o.tile != t || t.kind != chip.Tensix || t.outbox != nil || u.unfinished || u.open[id] >= 255 || kind&ctrlAtomic != 0 {
		return 0, false
	}
	targ, ret, targXY, retXY := c.ends(b)
	flits, posted := c.flits(int(n)), word.Bool(ctrl&ctrlMarked == 0)
	switch kind {
	case 0:
		from := c.known(noc, targXY)
		if posted != 0 || !t.isOwn(noc, retXY, ret, n) || from == nil || !t.readDirect(noc, from, targ, ret, n, flits) {
			return 0, false
		}
	case ctrlWrite:
		to := c.known(noc, retXY)
		if !t.isOwn(noc, targXY, targ, n) || to == nil || to.tile == t || (targ^ret)&15 != 0 || !c.isMemory(to, ret, n) {
			return 0, false
		}
		u.wrote(id, posted, flits, 1)
		t.changed(classNIU0 << noc)
		data := t.view(uint32(targ), int(n))
		if far := to.tile; far != nil {
			mergeTime(&far.newest, &t.newest)
			far.take(uint32(ret), int(n), data)
			far.changedBy(o, ret, n)
			far.countWrite(noc, flits, posted)
		} else {
			d := c.drams[to.bank]
			mergeTime(&d.newest, &t.newest)
			d.write(ret, int(n), data)
		}
		c.moved += n
	case ctrlWrite | ctrlBroadcast | ctrlPathReserve:
		to := u.recipients
		if to == nil || to.include || !t.isOwn(noc, targXY, targ, n) || (targ^ret)&15 != 0 || ret >= t.bytes() || ret+n > t.bytes() ||
			!to.between(noc, c.known(noc, retXY>>12), c.known(noc, retXY&0xFFF)) {
			return 0, false
		}
		t.changed(classNIU0 << noc)
		data := t.view(uint32(targ), int(n))
		for _, ep := range to.tiles {
			far := ep.tile
			mergeTime(&far.newest, &t.newest)
			far.take(uint32(ret), int(n), data)
			far.changedBy(o, ret, n)
			far.countWrite(noc, flits, posted)
		}
		u.wrote(id, posted, flits, uint32(len(to.tiles)))
		c.moved += n * uint64(len(to.tiles))
	case ctrlWrite | ctrlInline:
		to := c.known(noc, targXY)
		if to == nil || to.tile == nil || to.kind != chip.Tensix || targ < localBase || targ > 0xFFFFFFFF || targ&3 != 0 ||
			!t.isAt(noc, retXY) {
			return 0, false
		}
		u.wrote(id, posted, 0, 1)
		t.changed(classNIU0 << noc)
		far := to.tile
		mergeTime(&far.newest, &t.newest)
		if st = far.store(o.far(), uint32(targ), b[bufData]); st != slowDone {
			return slowHalt, true
		}
		c.moved += 4
		far.countWrite(noc, c.flits(4), posted)
	default:
		return 0, false
	}
	u.unread |= 1 << id
	u.unsent |= 1 << id
	return st, true
}

// isOwn reports whether n bytes are the tile's own L1, and one request may copy them.
func (t *tile) isOwn(noc int, coord uint32, addr, n uint64) bool {
	size := t.bytes()
	if n-1 >= uint64(t.chip.params.MaxBurst) || addr >= size || addr+n > size {
		return false
	}
	return t.isAt(noc, coord)
}

func (t *tile) isAt(noc int, coord uint32) bool {
	if coord == t.id[noc] {
		return true
	}
	ep := t.chip.known(noc, coord)
	return ep != nil && ep.tile == t
}

// between reports whether the recipients are those of a rectangle.
func (r *recipients) between(noc int, start, end *endpoint) bool {
	if noc == 1 {
		start, end = end, start
	}
	return start != nil && end != nil && r.rect == [4]uint8{start.xy.X, start.xy.Y, end.xy.X, end.xy.Y}
}

// readDirect reads n bytes of one piece of another worker's L1 or DRAM.
func (t *tile) readDirect(noc int, from *endpoint, at, to, n uint64, flits uint32) bool {
	c, far := t.chip, from.tile
	mask, time := uint64(15), (*uint64)(nil)
	var data []uint32
	switch {
	case far == t || !c.isMemory(from, at, n):
		return false
	case far != nil:
		data, time = far.view(uint32(at), int(n)), &far.newest
	default:
		d := c.drams[from.bank]
		data, time, mask = d.view(at, int(n)), &d.newest, uint64(c.params.Align.DRAMRead)-1
	}
	if data == nil || (at^to)&mask != 0 {
		return false
	}
	s := &t.niuWords[noc].count
	s[cntAccepted]++
	s[cntReadStarted]++
	s[cntReadSent]++
	s[cntReadResp]++
	s[cntReadWords] += flits
	t.changed(classNIU0 << noc)
	c.moved += n
	if far != nil {
		far.countRead(noc, flits)
	}
	mergeTime(&t.newest, time)
	t.take(uint32(to), int(n), data)
	return true
}

func (t *tile) countRead(noc int, flits uint32) {
	s := &t.niuWords[noc].count
	s[cntSlaveAccepted]++
	s[cntSlaveRead]++
	s[cntSlaveReadResp]++
	s[cntSlaveReadWords] += flits
	t.changed(classServed0 << noc)
}

func (u *niu) wrote(id, posted, flits, acks uint32) {
	s := &u.count
	s[cntAccepted]++
	s[cntWriteStarted+posted]++
	s[cntWriteSent+posted]++
	s[cntWriteWords+posted] += flits
	if posted == 0 {
		s[cntWriteAck] += acks
		u.bump8(cntOutstanding+id, 1-acks)
	}
}

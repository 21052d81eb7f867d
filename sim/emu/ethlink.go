package emu

import (
	"cmp"

	"github.com/reprise-tt/reprise/chip"
)

// txWindow is how many packets of a queue may be under way before it stays busy, as silicon's
// receive buffers and pause frames limit them.
const txWindow = 16

func (c *Chip) linked() bool { return len(c.ports) > 0 }

func oneIn(c *Chip, n uint64) bool { return n != 0 && c.random()%n == 0 }

func (t *tile) port() *port {
	if t.kind != chip.Ethernet || t.ethernet().channel >= len(t.chip.ports) || t.chip.ports[t.ethernet().channel].peer == nil {
		return nil
	}
	return &t.chip.ports[t.ethernet().channel]
}

// packet is bytes of L1, or a word for a register or L1, to another tile. There it counts as a
// write of the host.
type packet struct {
	o      origin
	from   *port
	queue  int
	cmd    uint32
	source uint32
	dest   uint32
	bytes  int
	words  []uint32
}

// ethSend starts what a transmit queue's registers ask for (ttsim src/tile.cpp eth_txq_regs_wr32).
func (t *tile) ethSend(o origin, q int, cmd uint32) slowResult {
	c, u := t.chip, &t.ethernet().tx[q]
	bad := t.refuser(o, "ethernet", uint32(ethTxBase+q<<12+ethTxCmd))
	p := t.port()
	switch {
	case cmd != ethCmdData && cmd != ethCmdRegister:
		return bad(unimplemented, "command %d of a transmit queue: want %d, data, or %d, a remote register", cmd, ethCmdData,
			ethCmdRegister)
	case u.busy:
		return bad(unimplemented, "command on transmit queue %d while it is busy: wait until its command (Wormhole) or bit 16 of its status (Blackhole) reads 0", q)
	case u.unseen && c.cfg.RefuseRaces && !c.flag(o, "races", undefined, "ethernet", uint64(ethTxBase+q<<12+ethTxCmd),
		"race: command on transmit queue %d, which may still be busy with its last one: no load of its command (Wormhole) or "+
			"of bit 16 of its status (Blackhole) has returned 0 since", q):
		return slowHalt
	case c.wormhole() && t.ethernet().mac != [2]uint32{ethMAC0, ethMAC1}:
		return bad(unimplemented, "command while the MAC's registers are %#x: want %#x and %#x", t.ethernet().mac, ethMAC0, ethMAC1)
	case p == nil:
		return bad(unimplemented, "command on an Ethernet tile without a link")
	}
	k := &packet{o: o, from: p, queue: q, cmd: cmd, source: u.source, dest: u.dest, bytes: 4}
	if cmd == ethCmdRegister {
		switch last := t.queues() - 1; {
		case q == last:
			return bad(unimplemented, "remote register through transmit queue %d: it is for data only", q)
		case u.dest&3 != 0:
			return bad(unimplemented, "remote register at %#x, which is not a multiple of 4", u.dest)
		}
		k.words = []uint32{u.data}
	} else {
		k.bytes = int(u.bytes)
		switch l1 := uint32(t.bytes()); {
		case (u.source|u.bytes|u.dest)&15 != 0:
			return bad(unimplemented, "%d bytes from %#x to %#x: want multiples of 16", u.bytes, u.source, u.dest)
		case u.source > l1 || u.bytes > l1-u.source || u.dest > l1 || u.bytes > l1-u.dest:
			return bad(undefined, "%d bytes from %#x to %#x reach beyond L1, which ends at %#x", u.bytes, u.source, u.dest, l1)
		}
	}
	u.busy, u.unseen = true, true
	if c.cfg.Delay > 0 {
		c.schedule(c.now(o)+c.someTime(), k, stepEthSend)
		return slowDone
	}
	c.transmit(k)
	if c.fault != nil {
		return slowHalt
	}
	return slowDone
}

// transmit reads a packet's bytes and sends it, or leaves it to wait for the link.
func (c *Chip) transmit(k *packet) {
	t := c.ethTile(k.from.channel)
	u := &t.ethernet().tx[k.queue]
	if !k.from.up() {
		u.waiting = k
		return
	}
	if k.cmd == ethCmdData && k.words == nil {
		k.words = make([]uint32, k.bytes/4)
		if k.bytes > 0 && !(c.readL1(k.o, t, k.source, k.bytes, k.words) &&
			(t.check == nil || c.check.ReadL1(k.o.checked(), t.check, k.source, k.bytes))) {
			return
		}
	}
	u.open++
	if u.busy = u.open >= txWindow; !u.busy {
		t.changed(classConfig)
	}
	from, lost := k.from, k.from.lost
	taken := func(c *Chip) {
		if from.lost == lost {
			c.taken(from.channel, k.queue)
		}
	}
	x := from.faults.Load()
	held := uint64(0)
	if x != nil {
		if x.Drop == 1 {
			return
		}
		by := cmp.Or(x.By, 10000)
		for oneIn(c, x.Drop) {
			held += by
		}
		if oneIn(c, x.Delay) {
			held += by
		}
	}
	copies := 1
	if x != nil && oneIn(c, x.Duplicate) {
		copies = 2
	}
	if far := from.peer.cable; far != nil {
		far.Send(Signal{Kind: SignalPacket, Queue: uint8(k.queue), Epoch: lost, Dest: k.dest, Register: k.cmd == ethCmdRegister, Words: k.words,
			Held: held, Copies: uint8(copies)})
		return
	}
	to := from.peer.chip
	to.inbox.post(to, func(c *Chip) {
		if !from.up() {
			return // the link went down meanwhile
		}
		c.arrive(k, held, copies)
		from.chip.inbox.post(from.chip, taken)
	})
}

func (c *Chip) arrive(k *packet, held uint64, copies int) {
	to := k.from.peer
	at := c.clock + held
	if c.cfg.Delay > 0 {
		at += c.someTime()
	}
	at = max(at, to.landed[k.queue])
	to.landed[k.queue] = at
	for range copies {
		if at > c.clock {
			c.schedule(at, k, stepEthLand)
		} else {
			c.land(k)
		}
	}
}

// taken notes that the other side has taken a packet.
func (c *Chip) taken(channel, queue int) {
	t := c.ethTile(channel)
	if t == nil {
		return
	}
	u := &t.ethernet().tx[queue]
	u.open = max(u.open-1, 0)
	if u.busy && u.waiting == nil && u.open == txWindow-1 {
		u.busy = false
		t.changed(classConfig)
	}
}

// land writes an arrived packet, as an access of the host.
func (c *Chip) land(k *packet) {
	to := k.from.peer
	t := c.ethTile(to.channel)
	if t == nil || c.fault != nil || k.bytes == 0 {
		return
	}
	c.writeTile(origin{tile: t}, "ethernet", 0, &c.grid[t.xy.Y][t.xy.X], uint64(k.dest), k.bytes, k.words)
}

func (c *Chip) ethTile(channel int) *tile {
	if channel < len(c.eths) {
		return c.eths[channel]
	}
	return nil
}

// linkChanged tells the firmware that a link went down or came up, and sends what waits.
func (c *Chip) linkChanged(channel int) {
	t := c.ethTile(channel)
	if t == nil {
		return
	}
	t.ethernet().noteLink()
	p := t.port()
	if p == nil || !p.up() {
		return
	}
	for _, o := range c.eths { // their routes may lead over this link
		if o != nil && o.l1 != nil && !o.serveRemote() {
			return
		}
	}
	p.lost++
	for i := range t.ethernet().tx {
		u := &t.ethernet().tx[i]
		full := u.open >= txWindow // otherwise busy with a command that it has not begun
		u.open = 0
		if k := u.waiting; k != nil {
			u.waiting = nil
			c.transmit(k)
		} else if u.busy && full {
			u.busy = false
			t.changed(classConfig)
		}
	}
}

// peerReset makes links to a chip that was reset go down and come up.
func (c *Chip) peerReset(peer *Chip) {
	for _, t := range c.eths {
		if !t.loseRemote(peer) {
			return
		}
	}
	for i := range c.ports {
		if far := c.ports[i].peer; far != nil && far.chip == peer {
			c.linkChanged(i)
		}
	}
}

func (k *packet) perform(do step) {
	if do == stepEthSend {
		k.from.chip.transmit(k)
	} else {
		k.from.peer.chip.land(k)
	}
}

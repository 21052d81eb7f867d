package emu

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

// Cable is a link from an Ethernet tile to a chip that is elsewhere, such as in another process.
// What the tile sends goes to Send; what the chip at the other end sends is given to
// [Machine.Receive].
type Cable struct {
	Chip, Channel int
	// Peer and PeerChannel are the other end.
	Peer        Identity
	PeerChannel int
	// Send sends to the other end, in order. It is called while the chip runs, so it must not wait,
	// and must not call methods of the Machine. At most 16 packets of each of the tile's transmit
	// queues are under way.
	Send func(Signal)
}

// SignalKind is what a Signal says.
type SignalKind uint8

// The signals of a cable.
const (
	SignalPacket SignalKind = iota + 1 // a transmit queue has sent a packet
	SignalTaken                        // the other end has taken one of the packets: there is room for another
	SignalDown                         // the link goes down
	SignalUp                           // the link comes up
	SignalReset                        // the chip was reset: what was under way is lost
)

// Signal is what one end of a cable tells the other.
type Signal struct {
	Kind  SignalKind
	Queue uint8 // of SignalPacket and SignalTaken: the transmit queue of the packet
	// Epoch is how often what was under way had been lost when the packet was sent; SignalTaken has
	// that of its packet.
	Epoch uint64
	// Of SignalPacket: where the words go, an address of L1, or that of one register.
	Dest     uint32
	Register bool
	Words    []uint32
	// Held is for how many clocks the packet is held up, and Copies how often it arrives: faults of
	// the sender's end.
	Held   uint64
	Copies uint8
}

// cable is the far end of a wire whose other chip is elsewhere.
type cable struct {
	Cable
	far    port   // its peer is the port here
	queues uint8  // transmit queues of the tile here
	l1     uint64 // bytes of its L1
}

// newCable joins a chip's port to a cable.
func newCable(c *Chip, l Cable) *cable {
	w, here := &wire{}, &c.ports[l.Channel]
	t := c.eths[l.Channel]
	far := &cable{Cable: l, queues: uint8(t.queues()), l1: uint64(t.bytes())}
	far.far = port{channel: l.PeerChannel, wire: w, peer: here, cable: far}
	here.chip, here.channel, here.wire, here.peer = c, l.Channel, w, &far.far
	w.ends = [2]*port{here, &far.far}
	return far
}

// identity returns what is known of the chip at a wire's end.
func (p *port) identity() *Identity {
	if p.cable != nil {
		return &p.cable.Peer
	}
	return &p.chip.cfg.Identity
}

// Receive takes what the other end of a cable has sent. The error wraps ErrConfig for a cable or a
// signal that can't be.
func (m *Machine) Receive(i int, s Signal) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("emu: cable %d: %w: %s", i, ErrConfig, fmt.Sprintf(format, args...))
	}
	if i < 0 || i >= len(m.cables) {
		return bad("the machine has %d", len(m.cables))
	}
	b := m.cables[i]
	c, channel := b.far.peer.chip, b.far.peer.channel
	if s.Queue >= b.queues && (s.Kind == SignalPacket || s.Kind == SignalTaken) {
		return bad("signal of transmit queue %d, there are %d", s.Queue, b.queues)
	}
	switch s.Kind {
	case SignalPacket:
		n, l1 := uint64(len(s.Words))*4, b.l1
		switch {
		case s.Copies < 1 || s.Copies > 2:
			return bad("a packet arrives %d times, want once or twice", s.Copies)
		case s.Register && (n != 4 || s.Dest&3 != 0):
			return bad("%d bytes for the register at %#x", n, s.Dest)
		case !s.Register && (n%16 != 0 || s.Dest%16 != 0 || n > l1 || uint64(s.Dest) > l1-n):
			return bad("%d bytes to %#x of L1, which has %#x", n, s.Dest, l1)
		}
		cmd := uint32(ethCmdData)
		if s.Register {
			cmd = ethCmdRegister
		}
		k := &packet{from: &b.far, queue: int(s.Queue), cmd: cmd, dest: s.Dest, bytes: int(n), words: s.Words}
		c.inbox.post(c, func(c *Chip) {
			if !b.far.up() {
				return // the link went down meanwhile
			}
			c.arrive(k, s.Held, int(s.Copies))
			b.Send(Signal{Kind: SignalTaken, Queue: s.Queue, Epoch: s.Epoch})
		})
	case SignalTaken:
		c.inbox.post(c, func(c *Chip) {
			if c.ports[channel].lost == s.Epoch {
				c.taken(channel, int(s.Queue))
			}
		})
	case SignalDown, SignalUp:
		b.far.wire.down.Store(s.Kind == SignalDown)
		c.inbox.post(c, func(c *Chip) { c.linkChanged(channel) })
	case SignalReset:
		c.inbox.post(c, func(c *Chip) { c.linkChanged(channel) })
	default:
		return bad("signal of kind %d", s.Kind)
	}
	return nil
}

// sendReset tells the far ends of the chip's cables that it was reset.
func (c *Chip) sendReset() {
	for i := range c.ports {
		if far := c.ports[i].peer; far != nil && far.cable != nil {
			far.cable.Send(Signal{Kind: SignalReset})
		}
	}
}

// connect checks and connects the cables of a machine.
func (m *Machine) connect(cables []Cable) error {
	for _, l := range cables {
		if l.Chip < 0 || l.Chip >= len(m.chips) || l.Channel < 0 || l.Channel >= len(m.chips[l.Chip].ports) {
			return fmt.Errorf("cable at channel %d of chip %d: there is no such working channel", l.Channel, l.Chip)
		}
		c := m.chips[l.Chip]
		switch {
		case c.ports[l.Channel].wire != nil:
			return fmt.Errorf("cable at channel %d of chip %d: it has a link", l.Channel, l.Chip)
		case l.Send == nil:
			return fmt.Errorf("cable at channel %d of chip %d: it has no Send", l.Channel, l.Chip)
		case c.cfg.Synchronous:
			return fmt.Errorf("cable at channel %d of chip %d: what comes through it would make a Synchronous chip's runs differ", l.Channel, l.Chip)
		case c.arch == chip.Wormhole && c.cfg.Identity.Routing:
			return fmt.Errorf("cable at channel %d of chip %d: chips that are reached through Ethernet only must be in one machine",
				l.Channel, l.Chip)
		}
		m.cables = append(m.cables, newCable(c, l))
	}
	return nil
}

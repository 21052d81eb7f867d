package emu

import (
	"fmt"
)

// Link joins two Ethernet tiles, each given by its chip and channel among the chip's working ones.
type Link struct {
	Chip, Channel         int
	PeerChip, PeerChannel int
}

// Machine is several linked chips of one architecture, each on its own goroutine; no chip holds up
// another. Synchronous chips run together inside the host's accesses to any of them, in an order
// drawn from the first chip's seed; concurrent accesses to two of them make runs differ.
type Machine struct {
	chips  []*Chip
	wires  []*wire
	cables []*cable
}

// NewMachine returns a machine whose chips are all Synchronous or none; with cables none is. Errors
// wrap ErrConfig.
func NewMachine(cfgs []Config, links []Link, cables ...Cable) (*Machine, error) {
	m := &Machine{}
	bad := func(format string, args ...any) (*Machine, error) {
		return nil, fmt.Errorf("emu: machine: %w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	if len(cfgs) == 0 {
		return bad("it has no chips")
	}
	var g *group
	if cfgs[0].Synchronous {
		g = &group{tok: make(chan struct{}, 1), limit: cfgs[0].MaxRun, rng: cfgs[0].Seed}
		g.tok <- struct{}{}
	}
	for i, cfg := range cfgs {
		if cfg.Arch != cfgs[0].Arch || cfg.Synchronous != cfgs[0].Synchronous {
			return bad("chip %d is %v, Synchronous %t; chip 0 is %v, Synchronous %t", i, cfg.Arch, cfg.Synchronous, cfgs[0].Arch,
				cfgs[0].Synchronous)
		}
		if cfg.Schedule != nil && len(cfgs) > 1 {
			return bad("chip %d has a Schedule, which chips can't have together", i)
		}
		c, err := newChip(cfg)
		if err != nil {
			return nil, fmt.Errorf("emu: machine: chip %d: %w", i, err)
		}
		c.ports = make([]port, len(c.eths))
		m.chips = append(m.chips, c)
	}
	for _, l := range links {
		w := &wire{}
		for i, end := range [2][2]int{{l.Chip, l.Channel}, {l.PeerChip, l.PeerChannel}} {
			if end[0] < 0 || end[0] >= len(m.chips) || end[1] < 0 || end[1] >= len(m.chips[end[0]].ports) {
				return bad("link %+v: chip %d has no working Ethernet channel %d", l, end[0], end[1])
			}
			c := m.chips[end[0]]
			p := &c.ports[end[1]]
			if p.wire != nil {
				return bad("link %+v: channel %d of chip %d has a link", l, end[1], end[0])
			}
			p.chip, p.channel, p.wire = c, end[1], w
			w.ends[i] = p
		}
		w.ends[0].peer, w.ends[1].peer = w.ends[1], w.ends[0]
		m.wires = append(m.wires, w)
	}
	if err := m.connect(cables); err != nil {
		return bad("%v", err)
	}
	for _, c := range m.chips {
		c.others = m.chips
		c.sched.init(c)
		if g != nil {
			c.tok, c.group = g.tok, g
			g.chips = append(g.chips, c)
		}
	}
	return m, nil
}

func (m *Machine) Len() int { return len(m.chips) }

// Chip returns chip i, 0 <= i < Len.
func (m *Machine) Chip(i int) *Chip { return m.chips[i] }

func (m *Machine) port(i, channel int) (*port, error) {
	if i >= 0 && i < len(m.chips) && channel >= 0 && channel < len(m.chips[i].ports) {
		if p := &m.chips[i].ports[channel]; p.peer != nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("emu: machine: %w: there is no link at channel %d of chip %d", ErrConfig, channel, i)
}

// SetLink takes the link at a channel of chip i down or up. Packets under way are lost when it goes
// down, and queues that send stay busy until it is up. The error wraps ErrConfig if there is no
// link.
func (m *Machine) SetLink(i, channel int, up bool) error {
	p, err := m.port(i, channel)
	if err != nil {
		return err
	}
	p.wire.down.Store(!up)
	for _, e := range p.wire.ends {
		if e.cable != nil {
			kind := SignalUp
			if !up {
				kind = SignalDown
			}
			e.cable.Send(Signal{Kind: kind})
			continue
		}
		e.chip.acquire()
		if !e.chip.closed {
			e.chip.linkChanged(e.channel)
		}
		e.chip.release()
	}
	return nil
}

// SetLinkFaults makes the link misbehave for packets that chip i sends through a channel; the zero
// value ends it. The error wraps ErrConfig if there is no link.
func (m *Machine) SetLinkFaults(i, channel int, u LinkFaults) error {
	p, err := m.port(i, channel)
	if err != nil {
		return err
	}
	p.faults.Store(&u)
	return nil
}

// Close closes all chips.
func (m *Machine) Close() error {
	for _, c := range m.chips {
		c.Close()
	}
	return nil
}

// cable is the far end of a wire to a chip elsewhere.
type cable struct {
	Cable
	far    port   // its peer is the port here
	queues uint8  // of the tile here
	l1     uint64 // of the tile here, bytes
}

func newCable(c *Chip, l Cable) *cable {
	w, here := &wire{}, &c.ports[l.Channel]
	t := c.eths[l.Channel]
	far := &cable{Cable: l, queues: uint8(t.queues()), l1: uint64(t.bytes())}
	far.far = port{channel: l.PeerChannel, wire: w, peer: here, cable: &far.Cable}
	here.chip, here.channel, here.wire, here.peer = c, l.Channel, w, &far.far
	w.ends = [2]*port{here, &far.far}
	return far
}

func (p *port) identity() *Identity {
	if p.cable != nil {
		return &p.cable.Peer
	}
	return &p.chip.cfg.Identity
}

// Receive takes what the other end of a cable has sent. The error wraps ErrConfig for an impossible
// cable or signal.
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

func (c *Chip) sendReset() {
	for i := range c.ports {
		if far := c.ports[i].peer; far != nil && far.cable != nil {
			far.cable.Send(Signal{Kind: SignalReset})
		}
	}
}

func (m *Machine) connect(cables []Cable) error {
	for _, l := range cables {
		if l.Chip < 0 || l.Chip >= len(m.chips) || l.Channel < 0 || l.Channel >= len(m.chips[l.Chip].ports) {
			return fmt.Errorf("cable at channel %d of chip %d: there is no such working channel", l.Channel, l.Chip)
		}
		c, why := m.chips[l.Chip], ""
		switch {
		case c.ports[l.Channel].wire != nil:
			why = "it has a link"
		case l.Send == nil:
			why = "it has no Send"
		case c.cfg.Synchronous:
			why = "what comes through it would make a Synchronous chip's runs differ"
		case c.wormhole() && c.cfg.Identity.Routing:
			why = "chips that are reached through Ethernet only must be in one machine"
		}
		if why != "" {
			return fmt.Errorf("cable at channel %d of chip %d: %s", l.Channel, l.Chip, why)
		}
		m.cables = append(m.cables, newCable(c, l))
	}
	return nil
}

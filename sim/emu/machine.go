package emu

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Link joins two Ethernet tiles, each given by its chip and its channel among the chip's working
// ones.
type Link struct {
	Chip, Channel         int
	PeerChip, PeerChannel int
}

// Machine is several chips of one architecture whose Ethernet tiles are linked. Each chip runs on a
// goroutine of its own. What one sends another is handed over in order and taken when the other one
// next runs, so that no chip ever holds up another one. Synchronous chips run together inside the
// host's accesses to any of them, in an order drawn from the first chip's seed; then the host must
// not access two of them at the same time from different goroutines and expect the same run again.
type Machine struct {
	chips  []*Chip
	wires  []*wire
	cables []*cable
}

// NewMachine returns the chips of a machine. Either all of them are Synchronous or none; with
// cables none is. Errors wrap ErrConfig.
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

// Len returns the number of chips.
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

// SetLink takes the link at a channel of chip i down or up. What is under way when it goes down is
// lost, and queues that send stay busy until it is up again. The error wraps ErrConfig if there is
// no link.
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

// group is the chips of a Synchronous machine, which share a token.
type group struct {
	tok   chan struct{}
	chips []*Chip
	limit int
	rng   uint64
	ready []*Chip
}

// settle runs the chips until all of them wait, and reports whether it came to that.
func (g *group) settle() bool {
	limit := g.limit
	if limit == 0 {
		limit = 1 << 24
	}
	for left := limit; left > 0; {
		g.ready = g.ready[:0]
		for _, c := range g.chips {
			if c.busy() {
				g.ready = append(g.ready, c)
			}
		}
		if len(g.ready) == 0 {
			return true
		}
		g.rng = g.rng*6364136223846793005 + 1442695040888963407
		left -= g.ready[int(g.rng>>33)%len(g.ready)].step()
	}
	return false
}

// inbox is what other chips have sent to a chip and it has not taken yet.
type inbox struct {
	mu      sync.Mutex
	waiting atomic.Int32
	list    []func(*Chip)
	taken   []func(*Chip)
}

// post leaves something for a chip to do when it next runs. The caller need not hold its token.
func (b *inbox) post(c *Chip, f func(*Chip)) {
	b.mu.Lock()
	b.list = append(b.list, f)
	b.waiting.Store(int32(len(b.list)))
	b.mu.Unlock()
	c.wakeLoop()
}

// drain performs what was posted. The caller holds the token.
func (b *inbox) drain(c *Chip) {
	for b.waiting.Load() != 0 && c.fault == nil {
		b.mu.Lock()
		b.taken, b.list = b.list, b.taken[:0]
		b.waiting.Store(0)
		b.mu.Unlock()
		for i, f := range b.taken {
			b.taken[i] = nil
			if c.fault == nil {
				f(c)
			}
		}
		if c.cfg.Paced {
			return // what this has posted again waits for a step
		}
	}
}

func (b *inbox) empty() {
	b.mu.Lock()
	clear(b.list)
	b.list = b.list[:0]
	b.waiting.Store(0)
	b.mu.Unlock()
}

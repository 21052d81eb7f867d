package sim

import (
	"cmp"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
)

// Machine is several emulated chips, linked by Ethernet. Its cards are targets for kmd.Open; chips
// without a PCI interface have none. A chip takes host memory only for written addresses.
type Machine struct {
	spec  chip.Machine
	emu   *emu.Machine
	drv   *driver.Driver
	cards []*Card
	err   error
	first int       // index of its first chip in the whole machine
	links *carriers // to the other parts

	mu     sync.Mutex
	faults map[[2]int]emu.LinkFaults // injected so far, by chip and channel
}

// N150 returns a machine with a Wormhole card.
func N150(opts ...Option) *Machine { return NewMachine(chip.N150(), opts...) }

// N300 returns a machine with a Wormhole card of two chips, one of them remote.
func N300(opts ...Option) *Machine { return NewMachine(chip.N300(), opts...) }

// T3000 returns a machine with four N300: eight chips, four of them remote.
func T3000(opts ...Option) *Machine { return NewMachine(chip.T3000(), opts...) }

// P100 returns a machine with a Blackhole card without Ethernet.
func P100(opts ...Option) *Machine { return NewMachine(chip.P100(), opts...) }

// P150 returns a machine with a Blackhole card.
func P150(opts ...Option) *Machine { return NewMachine(chip.P150(), opts...) }

// P300 returns a machine with a Blackhole card of two chips.
func P300(opts ...Option) *Machine { return NewMachine(chip.P300(), opts...) }

// QuietBox returns a machine with four P150.
func QuietBox(opts ...Option) *Machine { return NewMachine(chip.QuietBox(), opts...) }

// GalaxyWormhole returns a machine with 32 Wormholes.
func GalaxyWormhole(opts ...Option) *Machine { return NewMachine(chip.GalaxyWormhole(), opts...) }

// GalaxyBlackhole returns a machine with 32 Blackholes.
func GalaxyBlackhole(opts ...Option) *Machine { return NewMachine(chip.GalaxyBlackhole(), opts...) }

// LinkFault makes a link misbehave from the start: see Machine.Inject.
func LinkFault(name string) Option { return func(c *config) { c.links = append(c.links, name) } }

// UsedBy gives the chips to another host than the programs that open the cards, with memory for
// chip i. That host accesses each [Machine.Chip]; each card is an [emu.Observer].
func UsedBy(memory func(i int) driver.DMA) Option { return func(c *config) { c.host = memory } }

// NewMachine returns an emulated machine, running until Close. Options hold for all chips, which
// have seeds of their own, and their product's harvesting unless Harvesting sets another. Opening a
// card of an impossible machine fails; Err says why.
func NewMachine(spec chip.Machine, opts ...Option) *Machine {
	m := &Machine{spec: spec, faults: map[[2]int]emu.LinkFaults{}}
	c := config{driver: driver.Config{Name: "emulated " + spec.Name + " ", Arch: spec.Arch}}
	for _, o := range opts {
		o(&c)
	}
	m.err = m.start(&c)
	for i := range m.spec.Chips {
		if !m.spec.Chips[i].PCI {
			continue
		}
		card := &Card{node: impossible{name: c.driver.Name, err: m.err}, err: m.err, machine: m}
		if m.err == nil {
			card.node, card.drv, card.chip = m.drv.Node(len(m.cards)), m.drv, m.emu.Chip(i)
		}
		m.cards = append(m.cards, card)
	}
	return m
}

func identity(spec *chip.Machine, i int) emu.Identity {
	s := &spec.Chips[i]
	id := emu.Identity{Board: s.Serial(), ASIC: 0x5E<<32 | uint64(i+1), Location: s.Location, X: s.X, Y: s.Y}
	if spec.Arch == chip.Wormhole { // the number has 32 bits there
		id.ASIC = uint64(i + 1)
		for _, s := range spec.Chips {
			id.Routing = id.Routing || !s.PCI
		}
	}
	return id
}

func (m *Machine) start(c *config) error {
	whole, part := m.spec, cmp.Or(c.part, &Part{Count: 1})
	m.links = newCarriers(part)
	if err := part.check(&whole); err != nil {
		m.links.close()
		return err
	}
	first, end := part.chips(len(whole.Chips))
	m.first, m.spec.Chips, m.spec.Links = first, whole.Chips[first:end], nil
	var cfgs []emu.Config
	for i, s := range m.spec.Chips {
		cfg := c.chip
		cfg.Arch = m.spec.Arch
		cfg.Seed += uint64(first+i) * 0x9E3779B97F4A7C15
		if cfg.Harvesting == (chip.Harvesting{}) {
			cfg.Harvesting = s.Harvesting
		}
		cfg.Identity = identity(&whole, first+i)
		cfgs = append(cfgs, cfg)
	}
	var links []emu.Link
	var cables []emu.Cable
	for n, l := range whole.Links {
		a, b := first <= l.Chip && l.Chip < end, first <= l.PeerChip && l.PeerChip < end
		switch {
		case a && b:
			l.Chip, l.PeerChip = l.Chip-first, l.PeerChip-first
			m.spec.Links = append(m.spec.Links, l)
			links = append(links, emu.Link(l))
		case a:
			cables = append(cables, m.links.cable(part, &whole, n, len(cables), l.Chip, l.Channel, l.PeerChip, l.PeerChannel))
		case b:
			cables = append(cables, m.links.cable(part, &whole, n, len(cables), l.PeerChip, l.PeerChannel, l.Chip, l.Channel))
		}
	}
	var err error
	if m.emu, err = emu.NewMachine(cfgs, links, cables...); err != nil {
		m.links.close()
		return err
	}
	m.links.run(m.emu)
	for i, s := range m.spec.Chips {
		switch ch := m.emu.Chip(i); {
		case !s.PCI:
		case c.host != nil:
			ch.AttachDMA(c.host(i))
			c.driver.Functions = append(c.driver.Functions, ch.Observe())
		default:
			c.driver.Functions = append(c.driver.Functions, ch)
		}
	}
	if m.drv, err = driver.New(c.driver); err == nil {
		for _, f := range c.faults {
			if err == nil {
				_, err = m.drv.Node(0).Inject(f)
			}
		}
		for _, f := range c.links {
			if err == nil {
				err = m.Inject(f)
			}
		}
	}
	if err != nil {
		m.links.close()
		m.emu.Close()
	}
	return err
}

// Err returns why the machine is impossible, or nil.
func (m *Machine) Err() error { return m.err }

// Spec returns the description; for a part, its chips and the links between them.
func (m *Machine) Spec() chip.Machine { return m.spec }

func (m *Machine) String() string { return m.spec.Name }

// Cards returns the targets of the chips with a PCI interface, in Spec's order.
func (m *Machine) Cards() []*Card { return m.cards }

// Card returns the target of the i-th chip with a PCI interface.
func (m *Machine) Card(i int) *Card { return m.cards[i] }

// Chip returns chip i of Spec, for inspection; nil for an impossible machine.
func (m *Machine) Chip(i int) *emu.Chip {
	if m.err != nil {
		return nil
	}
	return m.emu.Chip(i)
}

// Driver returns the driver model of the cards.
func (m *Machine) Driver() (*driver.Driver, error) { return m.drv, m.err }

// FS is the machine's file system: see Card.FS.
func (m *Machine) FS() fs.FS {
	if m.err != nil {
		return nothing{}
	}
	return m.drv.FS()
}

// SetLink takes a chip's link down or up: see emu.Machine.SetLink.
func (m *Machine) SetLink(i, channel int, up bool) error {
	if m.err != nil {
		return m.err
	}
	return m.emu.SetLink(i, channel, up)
}

// Inject makes a link misbehave: "link-down=CHIP:CHANNEL" takes it down, "link-drop=CHIP:CHANNEL/N"
// loses one of N packets from the chip, which is sent again later, "link-duplicate=…" sends it
// twice, "link-delay=…" delays it. Faults of one kind replace each other. The error of an unknown
// fault or a missing link wraps emu.ErrConfig.
func (m *Machine) Inject(name string) error {
	if m.emu == nil {
		return m.err
	}
	kind, rest, _ := strings.Cut(name, "=")
	at, every, many := strings.Cut(rest, "/")
	a, b, _ := strings.Cut(at, ":")
	i, err1 := strconv.Atoi(a)
	channel, err2 := strconv.Atoi(b)
	n, err3 := uint64(1), error(nil)
	if many {
		n, err3 = strconv.ParseUint(every, 10, 64)
	}
	if err1 != nil || err2 != nil || err3 != nil || n == 0 {
		return fmt.Errorf("sim: link fault %q: %w: want one such as link-down=0:8 or link-drop=0:8/10", name, emu.ErrConfig)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.faults[[2]int{i, channel}]
	switch kind {
	case "link-down":
		return m.emu.SetLink(i, channel, false)
	case "link-drop":
		u.Drop = n
	case "link-duplicate":
		u.Duplicate = n
	case "link-delay":
		u.Delay = n
	default:
		return fmt.Errorf("sim: link fault %q: %w: want link-down, link-drop, link-duplicate or link-delay", name, emu.ErrConfig)
	}
	if err := m.emu.SetLinkFaults(i, channel, u); err != nil {
		return err
	}
	m.faults[[2]int{i, channel}] = u
	return nil
}

// Close ends the machine. Programs that have a card open lose it.
func (m *Machine) Close() error {
	if m.err != nil {
		return nil
	}
	err := m.drv.Close()
	m.links.close()
	m.emu.Close()
	return err
}

// Beside returns another card's node, such as /dev/tenstorrent/1, for kmd.
func (c *Card) Beside(node string) seam.Node {
	n, err := strconv.Atoi(node[strings.LastIndexByte(node, '/')+1:])
	if c.machine == nil || err != nil || n < 0 || n >= len(c.machine.cards) {
		return c.node
	}
	return c.machine.cards[n].node
}

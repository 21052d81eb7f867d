package emu

import (
	"fmt"
	"math/bits"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/arc"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

// newChecks makes what the options ask for.
func (t *tile) newChecks() {
	cfg := &t.chip.cfg
	if cfg.RefuseUnwritten {
		t.known = newBitset(t.size)
		t.flags = new([maxLines]uint8)
		for i := range t.flags[:t.size>>lineShift] {
			t.flags[i] = flagTrap
		}
		if t.blackhole() && t.kind == chip.Tensix {
			t.fwOwns(arcThrottle, arcThrottle+4)
		}
	}
	if cfg.RefuseStaleCode {
		t.writers = check.NewWriters(t.size)
	}
	if cfg.RefuseRaces {
		t.check = check.NewTile(t, t.xy, t.size)
	}
	if l := cfg.Launches; l != nil && t.kind == chip.Tensix {
		t.memory(l.Go + 4*l.Entries) // and all that firmware uses
		for at := l.Go; at < l.Go+4*l.Entries; at += 4 {
			t.flags[at>>lineShift] |= flagGo
		}
		t.starts = &launches{of: l, read: t.chip.readCore, now: Launch{Chip: t.chip.topology, Tile: t.xy},
			clock: func(p chip.Processor) uint64 { return t.chip.now(origin{core: t.core(p)}) }}
	}
	for _, k := range t.cores {
		if cfg.DataCache && t.blackhole() {
			k.cache = new(dataCache)
		}
		if cfg.RefuseUnwritten {
			k.localKnown = newBitset(k.localBytes())
		}
		if cfg.RefuseStaleCode {
			k.icache = check.NewInstructionCache(k.proc)
		}
		if cfg.RefuseOverflow {
			k.stack = new(check.Stack)
		}
		if cfg.Schedule != nil && t.kind == chip.Tensix {
			k.thread = cfg.Schedule.Thread(t.xy, k.proc, k.letGo)
			cfg.Schedule.Read = t.chip.readCore
		}
		k.checked = cfg.checks() || k.cache != nil
	}
}

// New returns a chip with all processors in reset, zeroed memory and, unless Synchronous, a
// goroutine that runs it until Close. Errors wrap ErrConfig.
func New(cfg Config) (*Chip, error) {
	c, err := newChip(cfg)
	if err == nil {
		c.sched.init(c)
	}
	return c, err
}

func newChip(cfg Config) (*Chip, error) {
	topology, err := chip.New(cfg.Arch, cfg.Harvesting)
	if err != nil {
		return nil, fmt.Errorf("emu: %w: %w", ErrConfig, err)
	}
	if cfg.Delay < 0 || cfg.MaxRun < 0 || cfg.Workers < 0 {
		return nil, fmt.Errorf("emu: %w: Delay %d, MaxRun %d and Workers %d must not be negative", ErrConfig, cfg.Delay, cfg.MaxRun, cfg.Workers)
	}
	if cfg.Schedule != nil {
		if !cfg.Synchronous {
			return nil, fmt.Errorf("emu: %w: a Schedule needs a Synchronous chip", ErrConfig)
		}
		cfg.Delay, cfg.Seed = 0, cfg.Schedule.Seed
	}
	waivers, err := newWaivers(cfg.Waivers)
	if err != nil {
		return nil, fmt.Errorf("emu: %w: %w", ErrConfig, err)
	}
	if cfg.MaxRun == 0 {
		cfg.MaxRun = 1 << 24
	}
	c := &Chip{cfg: cfg, arch: cfg.Arch, topology: topology, params: topology.Params(), layout: layoutOf(cfg.Arch), waivers: waivers,
		shownPC:  (*core).shownPC,
		exchange: new(exchange), stopped: make(chan struct{}, 1)}
	c.bare = !cfg.RefuseUnwritten && !cfg.RefuseStaleCode && !cfg.RefuseRaces && cfg.Schedule == nil
	c.flitShift = bits.TrailingZeros32(c.params.NOCWord)
	c.inPlace = c.bare && cfg.Delay == 0 && !cfg.Track
	if cfg.Track {
		c.track = newTrack()
	}
	c.translated = translations{hot: hot, off: cfg.Interpreter || !translate.Available}
	c.view = pausedChip{c}
	if cfg.Schedule != nil {
		c.standsStill()
	}
	c.powerUp()
	return c, nil
}

// powerUp gives everything its state after a reset of the card.
func (c *Chip) powerUp() {
	size := c.params.DRAMBankSize
	if c.wormhole() {
		size = 2 << 30 // a controller holds two banks
	}
	for noc := range c.routes {
		clear(c.routes[noc][:])
	}
	c.grid = make([][]endpoint, c.params.GridHeight)
	for y := range c.grid {
		c.grid[y] = make([]endpoint, c.params.GridWidth)
		for x := range c.grid[y] {
			c.addEndpoint(chip.XY{X: uint8(x), Y: uint8(y)}, size)
		}
	}
	c.tlb = make([]uint32, (int(c.params.BAR.WindowRegsSize)*c.windows()+3)/4)
	c.half = make([]uint8, c.windows())
	c.initLogicalIDs()
	c.initConfigSpace()
	ask := func() {}
	if c.arc != nil {
		ask = c.arc.AskReset
	}
	c.arc = arc.New(c.firmware())
	c.arc.AskReset = ask
	if c.cfg.RefuseRaces {
		c.newChecks()
	}
}

// Reset resets the chip as the driver resets a card: memory and fault are lost, processors held,
// host memory stays attached, and links to other chips go down and come up.
func (c *Chip) Reset() error {
	c.acquire()
	defer c.release()
	if c.closed {
		return fmt.Errorf("emu: reset: %w", ErrClosed)
	}
	was := c.pcie
	c.queue, c.pos, c.events, c.waitingEngines = nil, 0, nil, nil
	c.inbox.empty()
	c.boxes = nil
	clear(c.order)
	c.tiles, c.eths, c.drams, c.pcie, c.moved = nil, nil, nil, pcie{host: was.host, peers: was.peers, attend: was.attend}, 0
	c.powerUp()
	c.fault = nil
	c.faulted.Store(false)
	for i := range c.ports {
		c.ports[i].lost++
	}
	c.sendReset()
	for _, o := range c.others {
		if o != c {
			o.inbox.post(o, func(o *Chip) { o.peerReset(c) })
		}
	}
	return nil
}

// OnResetAsked implements driver.ResetAsker.
func (c *Chip) OnResetAsked(ask func()) {
	c.acquire()
	defer c.release()
	c.arc.AskReset = ask
}

func (c *Chip) addEndpoint(xy chip.XY, dramSize uint64) {
	info := c.topology.Tile(xy)
	ep := &c.grid[xy.Y][xy.X]
	*ep = endpoint{xy: xy, kind: info.Kind, bank: info.Index, harvested: info.Harvested}
	switch info.Kind {
	case chip.Tensix, chip.Ethernet:
		if !info.Harvested {
			ep.tile = newTile(c, xy, info.Kind)
			c.tiles = append(c.tiles, ep.tile)
		}
	case chip.DRAM:
		for len(c.drams) <= info.Index {
			c.drams = append(c.drams, newDRAM(dramSize, c.cfg.RefuseUnwritten))
		}
	}
}

// initLogicalIDs fills in NOC_ID_LOGICAL, each tile's translated coordinate.
func (c *Chip) initLogicalIDs() {
	for core := range c.topology.Workers() {
		v, err := c.topology.Virtual(core)
		if err != nil {
			continue
		}
		raw, err := c.topology.Physical(core)
		if err != nil {
			continue
		}
		t := c.grid[raw.Y][raw.X].tile
		t.id = [2]uint32{uint32(v.X) | uint32(v.Y)<<6, uint32(v.X) | uint32(v.Y)<<6}
	}
	channel := 0
	for raw := range c.topology.Tiles(chip.Ethernet) {
		t := c.grid[raw.Y][raw.X].tile
		if t == nil {
			continue
		}
		t.ethernet().channel = channel
		c.eths = append(c.eths, t)
		channel++
		v, _ := c.topology.VirtualOf(raw)
		t.id = [2]uint32{v.Packed(), v.Packed()}
	}
}

func (c *Chip) newChecks() {
	c.check = check.New(len(c.drams), func(by check.Origin, addr uint64, other *check.Other, format string, args ...any) bool {
		o := origin{remote: by.Remote}
		if by.Tile != nil {
			o.tile = by.Tile.Memory.(*tile)
		}
		if by.Core != nil {
			o.core = by.Core.Processor.(*core)
		}
		r := &Refusal{Category: undefined, Where: "race", Addr: addr, Detail: fmt.Sprintf(format, args...), Check: "races",
			Other: &Access{PC: other.PC, Addr: other.Addr, Wrote: other.Wrote}}
		if k := other.Core; k != nil {
			r.Other.Tile, r.Other.Core = k.Processor.(*core).tile.xy, k.Name
		} else {
			r.Other.Host = other.PC == 0
		}
		return c.flagRefusal(o, r)
	})
	for _, t := range c.tiles {
		cores := make([]*check.Core, len(t.cores))
		for i, k := range t.cores {
			k.check = &check.Core{Processor: k, Name: k.proc, Arch: c.arch, LocalBytes: k.localBytes()}
			cores[i] = k.check
		}
		c.check.AddTile(t.check, cores...)
	}
}

func newTile(c *Chip, xy chip.XY, kind chip.TileKind) *tile {
	t := &tile{chip: c, xy: xy, kind: kind, number: len(c.tiles)}
	size, streams := c.params.L1Size, maxStreams
	if kind == chip.Ethernet {
		size, streams = c.params.EthernetL1Size, leastStreams
	}
	t.size = size
	t.cores = t.room[:0]
	t.code = make([]*codePage, size/pageBytes)
	words := new(tileWords)
	t.niuWords, t.streams, t.slots = &words.niu, words.streams[:streams], c.slotsFor(streams)
	for n := range t.niu {
		t.niu[n].niuWords = &t.niuWords[n]
		t.niu[n].reset(c)
	}
	if kind == chip.Ethernet {
		newEthernet(t)
	} else {
		t.debug.softReset = c.params.ResetAll
		if c.track != nil {
			t.track = newTrack()
		}
		for hw, p := range hwOrder {
			t.addCore(p, uint8(hw))
		}
	}
	t.newChecks()
	return t
}

// Package sim offers emulated Tenstorrent cards as targets for kmd.Open: a chip of package emu
// behind the driver model of package driver. Code that runs on one runs on silicon unchanged.
//
//	d, err := kmd.Open(ctx, sim.Blackhole(sim.Seed(7)))
package sim

import (
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
)

// Card is an emulated card, a kmd.Target. The chip runs from the first open to the last close,
// which ends its state.
type Card struct {
	node seam.Node
	drv  *driver.Driver
	err  error // of an impossible card

	machine *Machine // that the card belongs to, or nil

	mu   sync.Mutex
	chip *emu.Chip
}

// Option changes a card.
type Option func(*config)

type config struct {
	chip   emu.Config
	driver driver.Config
	faults []driver.Fault
	stays  bool
	links  []string // faults of links
	part   *Part    // of a machine
	host   func(chip int) driver.DMA
}

// Harvesting sets the chip's fused-off units, all of them. If no product has such a chip, opening
// the card fails.
func Harvesting(h chip.Harvesting) Option { return func(c *config) { c.chip.Harvesting = h } }

// Seed chooses the processors' order and the networks' delays.
func Seed(seed uint64) Option { return func(c *config) { c.chip.Seed = seed } }

// Synchronous runs the chip inside the host's accesses: with a seed, every run of a single-threaded
// host is the same.
func Synchronous() Option { return func(c *config) { c.chip.Synchronous = true } }

// Interpreter doesn't translate instructions to machine code: the same results, slower.
func Interpreter() Option { return func(c *config) { c.chip.Interpreter = true } }

// Parallel runs busy tiles on all of Go's processors. With Synchronous the order of instructions
// depends on the seed only. It does nothing on slow networks or with checks of each instruction.
func Parallel() Option { return func(c *config) { c.chip.Parallel = true } }

// Awake keeps an idle chip polling for work on a processor of the host, so a doorbell never costs a
// system call.
func Awake() Option { return func(c *config) { c.chip.Awake = true } }

// Paced makes processors execute some instructions between two loads of the host, for hosts in
// virtual machines, which expect progress between polls.
func Paced() Option { return func(c *config) { c.chip.Paced = true } }

// EasesIdle throttles processors that only count, as some firmware does.
func EasesIdle() Option { return func(c *config) { c.chip.EasesIdle = true } }

// Delay delays requests on the networks by up to so many clocks at each step: responses come in any
// order that hardware allows.
func Delay(clocks int) Option { return func(c *config) { c.chip.Delay = clocks } }

// RefuseUnwritten refuses reads of unwritten L1, DRAM and local RAM, several times slower.
func RefuseUnwritten() Option { return func(c *config) { c.chip.RefuseUnwritten = true } }

// RefuseStaleCode refuses code that changed after a processor may have cached it.
func RefuseStaleCode() Option { return func(c *config) { c.chip.RefuseStaleCode = true } }

// RefuseRaces refuses programs that depend on fast networks or share memory without
// synchronisation.
func RefuseRaces() Option { return func(c *config) { c.chip.RefuseRaces = true } }

// RefuseCounters refuses wrong counters of requests and streams, and half-configured windows.
func RefuseCounters() Option { return func(c *config) { c.chip.RefuseCounters = true } }

// RefuseOverflow refuses stacks that overflow into data.
func RefuseOverflow() Option { return func(c *config) { c.chip.RefuseOverflow = true } }

// RunToIdle makes a chip Synchronous: a host's access returns when every core waits.
func RunToIdle() Option { return func(c *config) { c.chip.Synchronous, c.chip.MaxRun = true, 1<<40 } }

// Track notes what is done in DRAM, and in workers' L1 from emu.FirstL1 on, for emu.Chip.TakeTrack.
func Track() Option { return func(c *config) { c.chip.Track = true } }

// Launches tells of the programs that tiles execute.
func Launches(l *emu.Launches) Option { return func(c *config) { c.chip.Launches = l } }

// RefreshWaivers sets where a chip gets the waivers of new code: see emu.Config.RefreshWaivers.
func RefreshWaivers(f func() []emu.Waiver) Option {
	return func(c *config) { c.chip.RefreshWaivers = f }
}

// Findings tells f what the checks find, instead of stopping the chip: see emu.Config.Findings.
func Findings(f func(*emu.Finding)) Option { return func(c *config) { c.chip.Findings = f } }

func refuseUnmapped(c *config) { c.chip.RefuseUnmapped = true }

// Waive exempts single programs' code, such as tt-metal's firmware, from checks of Strict and from
// Delay (emu.SentIsRead).
func Waive(w ...emu.Waiver) Option {
	return func(c *config) { c.chip.Waivers = append(c.chip.Waivers, w...) }
}

// DataCache models the data cache of Blackhole's processors, which hides others' writes until it is
// invalidated.
func DataCache() Option { return func(c *config) { c.chip.DataCache = true } }

// Strict turns on every check and every freedom of the hardware that the emulator knows, by seed:
// slow and reordering networks, the data cache, and refusals of unwritten memory, undocumented
// addresses, stale code, races, wrong counters and stack overflows. Instructions take about twenty
// times as long (BenchmarkBusyCoreChecked of package emu), and each line of 64 bytes of L1 30 more
// bytes of host memory, and more once used.
func Strict(seed uint64) Option {
	return func(c *config) {
		for _, o := range []Option{Seed(seed), Delay(1 + int(seed*37%300)), RefuseUnwritten(), RefuseStaleCode(), RefuseRaces(),
			RefuseCounters(), RefuseOverflow(), refuseUnmapped, DataCache()} {
			o(c)
		}
	}
}

// WithoutIOMMU leaves no translating IOMMU: only physically contiguous memory can be pinned.
func WithoutIOMMU() Option { return func(c *config) { c.driver.NoIOMMU = true } }

// Fault makes the card or its machine misbehave from the start, with a fault of package driver,
// such as "slow-reads=700ms". An unknown fault fails the card's opening.
func Fault(name string) Option {
	return func(c *config) { c.faults = append(c.faults, driver.Fault(name)) }
}

// DriverVersion sets the modelled release of the kernel driver, by default 2.10.0.
func DriverVersion(major, minor, patch uint8) Option {
	return func(c *config) { c.driver.Version = driver.Version{Major: major, Minor: minor, Patch: patch} }
}

// Name sets the card's name in errors and reports.
func Name(name string) Option { return func(c *config) { c.driver.Name = name } }

// Resident starts the chip with the card and keeps its state until Close, as silicon does.
func Resident() Option { return func(c *config) { c.stays = true } }

// Blackhole returns an emulated Blackhole card, the product P150 of package chip.
func Blackhole(opts ...Option) *Card { return newCard(chip.Blackhole, opts) }

// Wormhole returns an emulated Wormhole card.
func Wormhole(opts ...Option) *Card { return newCard(chip.Wormhole, opts) }

func newCard(a chip.Arch, opts []Option) *Card {
	c := config{driver: driver.Config{Name: "emulated " + a.String() + " "}}
	if a == chip.Blackhole { // tt-umd refuses it with all Ethernet tiles
		c.chip.Harvesting = chip.P150().Chips[0].Harvesting
	}
	for _, o := range opts {
		o(&c)
	}
	card := &Card{}
	if len(c.links) > 0 {
		err := fmt.Errorf("sim: link fault %q: %w: a card by itself has no links", c.links[0], emu.ErrConfig)
		return &Card{node: impossible{name: c.driver.Name, err: err}, err: err}
	}
	c.chip.Arch, c.driver.Arch = a, a
	c.driver.Start = func() (driver.Function, error) {
		ch, err := emu.New(c.chip)
		if err != nil {
			return nil, err
		}
		card.mu.Lock()
		card.chip = ch
		card.mu.Unlock()
		return ch, nil
	}
	var d *driver.Driver
	var err error
	if c.stays {
		var fn driver.Function
		fn, err = c.driver.Start()
		c.driver.Start, c.driver.Functions = nil, []driver.Function{fn}
	}
	if err == nil {
		d, err = driver.New(c.driver)
	}
	for _, f := range c.faults {
		if err == nil {
			_, err = d.Node(0).Inject(f)
		}
	}
	if err != nil {
		// Opening reports the wrong option. A Resident chip runs already.
		if ch := card.Chip(); ch != nil {
			_ = ch.Close()
		}
		card.node, card.err = impossible{name: c.driver.Name, err: err}, err
		return card
	}
	card.node, card.drv = d.Node(0), d
	return card
}

// Node returns the card's device node.
func (c *Card) Node() seam.Node { return c.node }

func (c *Card) String() string { return c.node.String() }

// Driver returns the driver model with the card as device 0, for code that acts as the machine. The
// error is that of an impossible card.
func (c *Card) Driver() (*driver.Driver, error) { return c.drv, c.err }

// Tools returns the Resident card as tools such as debuggers should open it: their accesses, those
// of an [emu.Observer], aren't the program's.
func (c *Card) Tools() *Card {
	chip := c.Chip()
	if c.err != nil || chip == nil {
		return c
	}
	tools := &Card{chip: chip}
	tools.drv, tools.err = driver.New(driver.Config{Name: "tools of " + c.String() + " ", Arch: chip.Topology().Arch(),
		Functions: []driver.Function{chip.Observe()}})
	if tools.err == nil {
		tools.node = tools.drv.Node(0)
	} else {
		tools.node = impossible{name: c.String(), err: tools.err}
	}
	return tools
}

// Close ends the chip of a Resident card; programs that have it open lose it.
func (c *Card) Close() error {
	if c.drv == nil {
		return nil
	}
	return c.drv.Close()
}

// Chip returns the card's chip, for inspection; nil before the first open, the last one after the
// last close.
func (c *Card) Chip() *emu.Chip {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chip
}

type impossible struct {
	name string
	err  error
}

func (i impossible) Open(int) (seam.File, error) { return nil, i.err }
func (i impossible) String() string              { return i.name }

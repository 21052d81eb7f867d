// Package sim offers emulated Tenstorrent cards as targets for kmd.Open: a chip of package emu
// behind the model of the kernel driver of package driver. What runs on one runs on silicon
// unchanged.
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

// Card is an emulated card. It is a kmd.Target. The chip starts when the card is opened while it
// isn't open yet, and ends, with all its state, when it isn't open any more.
type Card struct {
	node seam.Node
	drv  *driver.Driver
	err  error // why there is no driver

	machine *Machine // of several chips that it belongs to, or nil

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

// Harvesting says which units of the chip are fused off; none by default. One that no product has
// makes opening the card fail.
func Harvesting(h chip.Harvesting) Option { return func(c *config) { c.chip.Harvesting = h } }

// Seed chooses the order in which the chip's processors run and the delays on its networks.
func Seed(seed uint64) Option { return func(c *config) { c.chip.Seed = seed } }

// Synchronous makes the chip run inside the host's accesses instead of beside them: together with a
// seed every run of a single-threaded host is the same.
func Synchronous() Option { return func(c *config) { c.chip.Synchronous = true } }

// Interpreter executes the instructions of the chip's processors one by one, and translates none to
// machine code of the host, as is done otherwise where the host allows it. Every run is the same
// with it, but takes longer.
func Interpreter() Option { return func(c *config) { c.chip.Interpreter = true } }

// Parallel executes the instructions of different tiles at the same time, on all processors that Go
// uses, while many tiles have something to do. The order in which the chip's processors run is
// another one; with Synchronous it still depends on the seed only. It does nothing where a network
// is slow or checks follow each instruction.
func Parallel() Option { return func(c *config) { c.chip.Parallel = true } }

// Awake keeps the chip looking for something to do, for which it takes a processor of the host: a
// doorbell then is never a system call of the goroutine that rings it, as on silicon.
func Awake() Option { return func(c *config) { c.chip.Awake = true } }

// Paced makes the chip's processors execute some instructions between two loads of the host,
// however busy the host's machine is. It is for hosts in virtual machines: what they have just
// started has begun when they look.
func Paced() Option { return func(c *config) { c.chip.Paced = true } }

// EasesIdle keeps processors that only count, as some firmware does, from taking the host's: they
// have few turns while others work, and a chip on which all only count rests most of the time.
func EasesIdle() Option { return func(c *config) { c.chip.EasesIdle = true } }

// Delay makes requests on the networks take up to so many clocks from step to step, so that
// responses come in any order that the hardware allows.
func Delay(clocks int) Option { return func(c *config) { c.chip.Delay = clocks } }

// RefuseUnwritten refuses reads of L1, DRAM and local RAM that was never written. It makes
// processors several times slower.
func RefuseUnwritten() Option { return func(c *config) { c.chip.RefuseUnwritten = true } }

// RefuseStaleCode refuses code that changed after a processor may have put it into its instruction
// cache.
func RefuseStaleCode() Option { return func(c *config) { c.chip.RefuseStaleCode = true } }

// RefuseRaces refuses what is right only as long as the chip's networks are quick enough, and
// memory that is shared without anything that orders its users.
func RefuseRaces() Option { return func(c *config) { c.chip.RefuseRaces = true } }

// RefuseCounters refuses counters of requests and streams that count wrong, and half-configured
// windows.
func RefuseCounters() Option { return func(c *config) { c.chip.RefuseCounters = true } }

// RefuseOverflow refuses stacks of processors that run over into data.
func RefuseOverflow() Option { return func(c *config) { c.chip.RefuseOverflow = true } }

func refuseUnmapped(c *config) { c.chip.RefuseUnmapped = true }

// Waive lets the code of single programs, such as tt-metal's firmware, rely on what Strict refuses
// to all others, and Delay doesn't give them (emu.SentIsRead). Without such options it does
// nothing.
func Waive(w ...emu.Waiver) Option {
	return func(c *config) { c.chip.Waivers = append(c.chip.Waivers, w...) }
}

// DataCache models the data cache of Blackhole's processors, which does not see what others write
// until it is told to.
func DataCache() Option { return func(c *config) { c.chip.DataCache = true } }

// Strict turns on every check and every freedom of the hardware that the emulator knows, by seed:
// slow and reordering networks, the data cache, and refusals of memory never written, addresses
// never documented, stale code, races, counters that count wrong and stacks that overflow. Package
// emu says what each finds and what it doesn't. Processors take about twenty times as long for an
// instruction (BenchmarkBusyCoreChecked of package emu), and a tile's L1 takes some 30 bytes more
// of the host's memory for each line of 64, and more for lines that are used.
func Strict(seed uint64) Option {
	return func(c *config) {
		for _, o := range []Option{Seed(seed), Delay(1 + int(seed*37%300)), RefuseUnwritten(), RefuseStaleCode(), RefuseRaces(),
			RefuseCounters(), RefuseOverflow(), refuseUnmapped, DataCache()} {
			o(c)
		}
	}
}

// WithoutIOMMU makes the machine one without a translating IOMMU, where only physically contiguous
// memory can be pinned.
func WithoutIOMMU() Option { return func(c *config) { c.driver.NoIOMMU = true } }

// Fault makes the card or its machine misbehave from the start, in one of the ways of package
// driver: "all-ones", "slow-reads=700ms", "slow-pins=1s", "busy-windows", "resetting",
// "stuck-reset", "no-power", "small-bar4=BYTES", "unplug=2s", "second-process". One that isn't
// known makes opening the card fail.
func Fault(name string) Option {
	return func(c *config) { c.faults = append(c.faults, driver.Fault(name)) }
}

// DriverVersion chooses the modelled release of the kernel driver, 2.10.0 by default.
func DriverVersion(major, minor, patch uint8) Option {
	return func(c *config) { c.driver.Version = driver.Version{Major: major, Minor: minor, Patch: patch} }
}

// Name chooses what the card is called in errors and reports.
func Name(name string) Option { return func(c *config) { c.driver.Name = name } }

// Resident makes the chip start with the card and keep its state while it isn't open, as one of
// silicon does. Close ends it.
func Resident() Option { return func(c *config) { c.stays = true } }

// Blackhole returns an emulated Blackhole card.
func Blackhole(opts ...Option) *Card { return newCard(chip.Blackhole, opts) }

// Wormhole returns an emulated Wormhole card.
func Wormhole(opts ...Option) *Card { return newCard(chip.Wormhole, opts) }

func newCard(a chip.Arch, opts []Option) *Card {
	c := config{driver: driver.Config{Name: "emulated " + a.String() + " "}}
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
		// A machine that can't exist: an option's doing, which opening tells. The chip of a card
		// that stays runs already.
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

// String names the card.
func (c *Card) String() string { return c.node.String() }

// Driver returns the model of the driver that the card belongs to, as device 0, for code that acts
// as its machine: other processes, faults, serving the card to others. The error is that of a card
// that can't exist.
func (c *Card) Driver() (*driver.Driver, error) { return c.drv, c.err }

// Close ends the chip of a Resident card; programs that have it open lose it. Other cards end with
// their last file.
func (c *Card) Close() error {
	if c.drv == nil {
		return nil
	}
	return c.drv.Close()
}

// Chip returns the emulated chip of the card, for tests and tools that look inside; nil before the
// card is first opened. After the last close it is the chip that was.
func (c *Card) Chip() *emu.Chip {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chip
}

// impossible is the node of a machine that can't exist.
type impossible struct {
	name string
	err  error
}

func (i impossible) Open(int) (seam.File, error) { return nil, i.err }
func (i impossible) String() string              { return i.name }

package emu

import (
	"sync/atomic"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/arc"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
)

// Config says what chip New makes. Its zero value needs only Arch.
type Config struct {
	Arch       chip.Arch
	Harvesting chip.Harvesting

	// Seed draws the order in which processors run, the length of their slices and the delays of
	// NoC requests. With Synchronous the same seed and the same accesses by the host give the same
	// run.
	Seed uint64

	// Synchronous makes the chip run inside the host's accesses instead of on a goroutine of its
	// own: each access returns when every processor waits or is in reset, or after MaxRun
	// instructions.
	Synchronous bool
	// Interpreter executes all instructions of the processors one by one, and translates none to
	// machine code. The run does not depend on it.
	Interpreter bool
	// Parallel executes the instructions of different tiles at the same time while many tiles have
	// something to do: see Windows in the package's documentation. The run is another one than
	// without it. It does nothing with Delay, RefuseCounters and the checks that make processors
	// slower.
	Parallel bool
	// Workers is on how many goroutines Tensix engines of different tiles run at the same time, and
	// with Parallel their processors; 0 for as many as Go uses processors. The run does not depend
	// on it.
	Workers int

	// MaxRun bounds what runs inside one access of a Synchronous chip; 0 means 1<<24 instructions.
	MaxRun int

	// alwaysLooks wakes cores that wait whenever a line is stored to of which they read something,
	// also when that is as it was. It is for tests of that shortcut.
	alwaysLooks bool

	// Awake keeps the goroutine that runs the chip polling for work, for which it uses a processor
	// of the host. A store to a chip that waits then never has to wake a thread, which would be a
	// system call of the host thread that stores.
	Awake bool

	// Paced makes processors execute some slices between two loads of the host, however the host's
	// threads take turns: a load takes that long on silicon, and programs expect a processor that
	// counts to have counted between two of them. It is for hosts in virtual machines, whose own
	// instructions are slow; Synchronous chips run between all accesses anyway.
	Paced bool

	// EasesIdle keeps processors that only count from taking the host's: see Idle in the package's
	// documentation. A Synchronous chip doesn't need it.
	EasesIdle bool

	// Delay makes NoC requests take up to so many clocks between their steps (virtual channel,
	// packet sent, arrival, response), each drawn from Seed, so that responses come in any order
	// that the NoC allows. 0 completes a request inside the store that starts it.
	Delay int

	// RefuseUnwritten refuses reads of L1, DRAM and processors' local RAM that were never written,
	// by processors, NoC and host. Reads of the host of more than 8 bytes give garbage instead,
	// which Seed chooses: a host doesn't act on a block without checking what is in it, and after a
	// hang the host keeps whole rings. Blackhole clears local RAM when a processor leaves reset;
	// nothing else is zero by itself. It makes processors several times slower.
	RefuseUnwritten bool

	// RefuseStaleCode refuses to execute an instruction of L1 if the 16 bytes that are fetched with
	// it changed after the processor executed them, or may have prefetched them, unless its
	// instruction cache was emptied in between. It makes processors several times slower.
	RefuseStaleCode bool

	// RefuseRaces refuses what is right only as long as the NoC is quick enough, whether or not it
	// was quick enough this time, and memory that is shared without an edge that orders its users:
	// see Races and Shared memory in the package's documentation. It makes processors some twenty
	// times slower.
	RefuseRaces bool

	// RefuseCounters refuses counters that count wrong: an id's counter of unanswered requests that
	// is polled although it cannot become zero, or before the requests that it should wait for are
	// counted; a stream counter that leaves its range; a counter of pages taken that overtakes the
	// one of pages put; and an access through a TLB window of which only some configuration words
	// were stored.
	RefuseCounters bool

	// RefuseOverflow refuses a stack pointer that comes down to data in a processor's local RAM, or
	// leaves it: see Stacks and pages in the package's documentation. It makes processors several
	// times slower.
	RefuseOverflow bool

	// RefuseUnmapped refuses what no document mentions, or what documents warn of, and the vendor's
	// own programs do without harm: stores beyond the last debug register of a Blackhole worker,
	// and the host's to coordinates that no tile of a Blackhole has, which do nothing otherwise;
	// the host's accesses to 0x40000000 of a Wormhole worker, which is its L1 otherwise; the host's
	// to ARC registers in BAR 0 of a Blackhole that doesn't show them, which are zero otherwise;
	// loads through multicast windows, which read the end of the rectangle otherwise; windows of a
	// Blackhole with a static virtual channel, which are as without one otherwise; the host's loads
	// of registers that aren't of one word, which find the bytes of the words otherwise, and of the
	// debug bus and arrays when nothing is selected, which are zero otherwise; multicasts whose
	// rectangle ends at a tile that is no worker, which only workers get otherwise; blocks that
	// Ethernet firmware moves from or to host memory that isn't mapped, which are all ones, or
	// lost, otherwise; and what is no instruction, executed where the host has overwritten a
	// processor's code, at which that processor stops until its next reset otherwise.
	RefuseUnmapped bool

	// Waivers let single programs rely on what these checks refuse to all others, and Delay doesn't
	// give them.
	Waivers []Waiver

	// Identity is what the chip and its firmware call it; zero values are those of a card with one
	// chip.
	Identity Identity

	// DataCache models the L0 data cache of Blackhole's processors: four lines of 16 bytes that
	// keep what they hold, whatever writes to L1, until a fence, an atomic memory operation or
	// another line in the same place, which Seed chooses. A program that polls a word without a
	// fence then waits forever, where silicon, which drops the cache now and then, would make it
	// slow. It makes processors several times slower, and does nothing on Wormhole.
	DataCache bool
}

// Chip is an emulated chip, a PCI function. Its methods may be called from any goroutine.
type Chip struct {
	// What hosts load at each access lies among what nobody stores.
	cfg     Config
	faulted atomic.Bool // fault isn't nil
	*exchange

	ports    []port  // by channel, of the working Ethernet tiles; nil without a machine
	others   []*Chip // of the machine, this one too; nil without one
	eths     []*tile // by channel
	arch     chip.Arch
	topology *chip.Chip
	params   *chip.Params
	layout   niuLayout

	grid    [][]endpoint                         // by raw NoC 0 y, x
	routes  [2][1 << 12]atomic.Pointer[endpoint] // what coordinates mean, by NoC, as far as they were used
	tiles   []*tile
	drams   []*dram
	tlb     []uint32
	half    []uint8     // by window: which configuration words were stored since it was last used
	check   *check.Chip // with RefuseRaces
	waivers []waiver
	waived  waiverCache
	pcie    pcie
	arc     *arc.ARC

	translated translations

	hand      workerState // of the goroutine that runs the chip
	bare      bool        // nothing is checked of what is in memory
	inPlace   bool        // also, requests take no time: they read memory where it is
	flitShift int         // a flit of a NoC has 1 << flitShift bytes
	moved     uint64      // bytes, over NoCs
	newest    uint64      // of the host: see clock.go
	scratch   []uint32    // for host accesses
	hostBytes [8]byte

	sched
	fault    error
	stopped  chan struct{} // has one element once fault isn't nil
	observed *error        // where refusals of an Observer's access go while it is performed, or nil
}

// windows is the number of TLB windows: 186 on Wormhole, 202 and 8 large ones on Blackhole
// (tt-isa-documentation WormholeB0/PCIExpressTile/TLBs.md, tt-kmd blackhole.c).
func (c *Chip) windows() int {
	if c.arch == chip.Wormhole {
		return 186
	}
	return 210
}

// Topology returns the chip's tiles and coordinates.
func (c *Chip) Topology() *chip.Chip { return c.topology }

// Stopped receives once when the chip stops; [Chip.Fault] says why.
func (c *Chip) Stopped() <-chan struct{} { return c.stopped }

// tileAt returns the tile at a raw NoC 0 coordinate, or nil.
func (c *Chip) tileAt(xy chip.XY) *tile {
	if int(xy.Y) >= len(c.grid) || int(xy.X) >= len(c.grid[0]) {
		return nil
	}
	return c.grid[xy.Y][xy.X].tile
}

// checks reports whether a configuration needs processors to run one instruction at a time.
func (cfg *Config) checks() bool {
	return cfg.RefuseUnwritten || cfg.RefuseStaleCode || cfg.RefuseRaces || cfg.RefuseOverflow
}

// wire is a cable between two Ethernet tiles.
type wire struct {
	down atomic.Bool
	ends [2]*port
}

// port is a wire's end at a chip.
type port struct {
	chip    *Chip  // nil if it is elsewhere
	cable   *Cable // to a chip that is elsewhere
	channel int
	wire    *wire
	peer    *port
	faults  atomic.Pointer[LinkFaults]
	landed  [3]uint64 // by transmit queue of the peer: when its last packet lands, by this chip's clock
	lost    uint64    // how often what was under way was lost: packets of before don't count as taken
}

func (p *port) up() bool { return !p.wire.down.Load() }

package emu

import (
	"sync/atomic"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/schedules"
	"github.com/reprise-tt/reprise/sim/emu/internal/arc"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
)

// Config configures a chip. Its zero value needs only Arch. RefuseUnwritten, RefuseStaleCode,
// RefuseOverflow and DataCache make processors several times slower, RefuseRaces twenty times.
type Config struct {
	Arch       chip.Arch
	Harvesting chip.Harvesting

	// Seed draws the order of processors, their slices, and the delays of NoC requests. A
	// Synchronous chip repeats its run for the same seed and host accesses.
	Seed uint64

	// Synchronous runs the chip inside the host's accesses, without a goroutine: each returns when
	// every processor waits or is in reset, or after MaxRun instructions.
	Synchronous bool
	// Interpreter translates no instructions to machine code. The run does not depend on it.
	Interpreter bool
	// Parallel executes different tiles at the same time: see Windows in the package's
	// documentation. It changes the run, and does nothing with Delay, RefuseCounters and slow
	// checks.
	Parallel bool
	// Workers is the number of goroutines for Tensix engines, and with Parallel for processors; 0
	// for GOMAXPROCS. The run does not depend on it.
	Workers int

	// MaxRun bounds the instructions inside one access of a Synchronous chip; 0 means 1<<24.
	MaxRun int

	// alwaysLooks, for tests, wakes waiting cores at each store to a watched line.
	alwaysLooks bool

	// Awake keeps the chip's goroutine polling, on a processor of the host, so that a store to a
	// waiting chip never takes a system call.
	Awake bool

	// Paced makes processors execute some slices between two loads of the host, as on silicon,
	// where a load takes that long. It is for slow hosts in virtual machines.
	Paced bool

	// EasesIdle gives a processor that stored to no register for 64 slices a turn in every 16th
	// round. A chip with only such processors for 20 ms works for a twentieth of the time until a
	// host accesses it.
	EasesIdle bool

	// Delay makes NoC requests take up to so many clocks between their steps (virtual channel,
	// packet sent, arrival, response), drawn from Seed, so that responses come in any order that
	// the NoC allows. 0 completes a request inside the store that starts it.
	Delay int

	// RefuseUnwritten refuses reads of L1, DRAM and local RAM that were never written. Host reads
	// of more than 8 bytes give garbage, drawn from Seed, instead. Blackhole clears local RAM when
	// a processor leaves reset.
	RefuseUnwritten bool

	// RefuseStaleCode refuses to execute an L1 instruction if the 16 bytes fetched with it changed
	// since the processor executed or prefetched them, unless its instruction cache was emptied.
	RefuseStaleCode bool

	// RefuseRaces refuses what is right only if the NoC is quick enough, and memory shared without
	// an ordering edge: see Races and Shared memory in the package's documentation.
	RefuseRaces bool

	// RefuseCounters refuses an id's counter polled although it can't become zero, or before its
	// requests need be counted; a stream counter out of its range; a counter of pages taken that
	// overtakes the pages put; and accesses through a half-configured TLB window.
	RefuseCounters bool

	// RefuseOverflow refuses a stack pointer that reaches data in local RAM or leaves it. What is
	// stored below the stack pointer is data, of a kernel until the outermost call through a
	// pointer returns.
	RefuseOverflow bool

	// RefuseUnmapped refuses what no document promises and the vendor's own programs do without
	// harm. Otherwise:
	// - stores beyond the last debug register of a Blackhole worker, and by a host to coordinates
	// without a tile, do nothing;
	// - 0x40000000 of a Wormhole worker is its L1 to hosts;
	// - ARC registers that a Blackhole's BAR 0 doesn't show, and the debug bus and arrays with
	// nothing selected, are zero;
	// - loads through multicast windows read the end of the rectangle;
	// - static virtual channels of Blackhole's windows are ignored;
	// - host loads of registers may have any width;
	// - multicasts skip tiles that are no workers;
	// - unmapped host memory is all ones to Ethernet firmware;
	// - a processor whose code the host has overwritten stops at what is no instruction;
	// - the debug interface ignores commands to processors that run, and resumes a processor that
	// predicts branches or has paused outside of slow execution mode;
	// - events of performance counters, which nothing counts, are zero.
	RefuseUnmapped bool

	// Findings, if not nil, is told of what Refuse... options find, and the chip goes on as if that
	// were allowed. The chip waits for it, and it may be called from several goroutines.
	Findings func(*Finding)

	// Waivers let single programs rely on what the checks refuse to others, and Delay doesn't give.
	Waivers []Waiver
	// RefreshWaivers, if not nil, returns new waivers, or nil if the old ones hold. A Synchronous
	// chip with checks calls it for code that no waiver covers, once after a host's access.
	RefreshWaivers func() []Waiver

	// Track notes for [Chip.TakeTrack] which DRAM is used, and which L1 of workers from FirstL1 on.
	// Parallel does nothing then.
	Track bool

	// Launches, if not nil, is told of the programs that tiles execute. Parallel does nothing then.
	Launches *Launches

	// Identity is the chip's name for itself and its firmware; by default a card's with one chip.
	Identity Identity

	// Schedule, if not nil, finds accesses to words of workers' L1 and stream registers that could
	// change places, and makes some wait, as package internal/schedules says. A processor waits
	// before its instruction. A request waits, with its data, before it takes effect. Not followed
	// are DRAM, host memory, Tensix engines, Ethernet tiles, and when a write reads its source. It
	// needs a Synchronous chip, alone in its machine, sets Seed and Delay, and makes processors
	// several times slower.
	Schedule *schedules.Run

	// DataCache models the L0 data cache of Blackhole's processors: four lines of 16 bytes, kept
	// whatever writes to L1, until a fence, an atomic memory operation or, as Seed chooses, another
	// line. Silicon also drops lines now and then. Findings is told of loads of old values.
	DataCache bool
}

// Chip is an emulated chip, a PCI function. Its methods may be called from any goroutine.
type Chip struct {
	// Hot read-only fields first.
	cfg     Config
	faulted atomic.Bool
	*exchange

	ports    []port  // by channel of working Ethernet tiles; nil without a machine
	others   []*Chip // of the machine, this one too
	eths     []*tile // by channel
	arch     chip.Arch
	topology *chip.Chip
	params   *chip.Params
	layout   niuLayout

	grid    [][]endpoint                         // by raw NoC 0 y, x
	routes  [2][1 << 12]atomic.Pointer[endpoint] // by NoC and coordinate, once used
	tiles   []*tile
	drams   []*dram
	tlb     []uint32
	half    []uint8     // by window: configuration words stored since its last use
	check   *check.Chip // with RefuseRaces
	track   *Track      // with Config.Track, for DRAM
	waivers []waiver
	waived  waiverCache
	view    ChipView // for Config.Findings
	shownPC func(*core) uint32

	hostAccessed bool // by the host, since Config.RefreshWaivers was asked
	pcie         pcie
	arc          *arc.ARC

	translated translations

	hand      workerState // of the goroutine that runs the chip
	bare      bool        // memory is unchecked
	inPlace   bool        // bare, and requests take no time: they read memory in place
	flitShift int         // log2 of a flit's bytes
	moved     uint64      // bytes, over NoCs
	newest    uint64      // of the host: see mergeTime
	scratch   []uint32    // for host accesses
	hostBytes [8]byte

	sched
	fault    error
	stopped  chan struct{} // receives once when fault is set
	observed *error        // where refusals of an Observer's access go, or nil
}

// windows is the number of TLB windows (tt-isa-documentation WormholeB0/PCIExpressTile/TLBs.md,
// tt-kmd blackhole.c).
func (c *Chip) windows() int {
	if c.wormhole() {
		return 186
	}
	return 210
}

// Topology returns the chip's tiles and coordinates.
func (c *Chip) Topology() *chip.Chip { return c.topology }

// Stopped receives once when the chip stops; [Chip.Fault] says why.
func (c *Chip) Stopped() <-chan struct{} { return c.stopped }

func (c *Chip) wormhole() bool  { return c.arch == chip.Wormhole }
func (c *Chip) blackhole() bool { return c.arch == chip.Blackhole }

func (c *Chip) tileAt(xy chip.XY) *tile {
	if int(xy.Y) >= len(c.grid) || int(xy.X) >= len(c.grid[0]) {
		return nil
	}
	return c.grid[xy.Y][xy.X].tile
}

func (cfg *Config) paced() bool { return cfg.Paced && !cfg.Synchronous }

// checks reports whether processors must run one instruction at a time.
func (cfg *Config) checks() bool {
	return cfg.RefuseUnwritten || cfg.RefuseStaleCode || cfg.RefuseRaces || cfg.RefuseOverflow || cfg.Schedule != nil
}

type wire struct {
	down atomic.Bool
	ends [2]*port
}

type port struct {
	chip    *Chip  // nil if it is elsewhere
	cable   *Cable // to a chip that is elsewhere
	channel int
	wire    *wire
	peer    *port
	faults  atomic.Pointer[LinkFaults]
	landed  [3]uint64 // by the peer's transmit queue: when its last packet lands
	lost    uint64    // how often packets under way were lost
}

func (p *port) up() bool { return !p.wire.down.Load() }

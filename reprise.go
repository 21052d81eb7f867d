// Package reprise records a Tenstorrent command stream once and plays it again for almost nothing.
//
// A [Device] is a Wormhole or Blackhole chip: on silicon behind the kernel driver tt-kmd, in the vendor's simulator,
// or in the embedded emulator; the code is the same. Programs are kernels for the chip's RISC-V cores with their
// arguments and circular buffers. A [Queue] runs them in order; [Queue.Capture] records what would be run into a
// [Trace] that lies at the top of every DRAM bank, and [Trace.Replay] runs it again by writing a few words.
//
// A device has one or two queues. Nothing orders two queues but an [Event], which one queue records and the other waits
// for, and what the host has waited for; [Queue.Capture] records one trace over both.
//
// Nothing is global: everything hangs off a Device that somebody opened and closes.
package reprise

import (
	"maps"
	"time"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kmd"
)

// The field's nouns, by the packages that define them.
type (
	// Target is what Open opens: Path for a device node, sim.Blackhole() and sim.Wormhole() for the embedded emulator,
	// ttsim.Library for the vendor's simulator.
	Target = kmd.Target
	// Arch is an architecture.
	Arch = chip.Arch
	// Core is the logical coordinate of a worker, from (0,0).
	Core = chip.Core
	// Range is an inclusive rectangle of workers.
	Range = chip.Range
	// Processor is one of the five RISC-V cores of a worker.
	Processor = chip.Processor
	// NOC is one of a chip's two networks.
	NOC = chip.NOC
	// Kind is a kind of device memory.
	Kind = allocator.Kind
	// MemoryStats describes what is allocated and free of one kind, in bytes of each bank.
	MemoryStats = allocator.Stats
	// MemoryMap is what lies where in a device's memory.
	MemoryMap = allocator.Map
	// MemoryChange is something that was allocated or freed between two states of memory.
	MemoryChange = allocator.Change
	// Layout says how the pages of a buffer are dealt to banks.
	Layout = allocator.Layout
	// Sharding says how a buffer is cut into shards and which cores hold them.
	Sharding = allocator.ShardSpec
	// HangError is what a wait without progress ends in.
	HangError = dispatch.HangError
	// ProgramError says which part of a program can't be run, and why.
	ProgramError = dispatch.ProgramError
	// OverlapError says that two queues would use the same workers with nothing that orders them.
	OverlapError = dispatch.OverlapError
	// WorkersError says that a program uses workers that its queue doesn't start.
	WorkersError = dispatch.WorkersError
	// Clock is a reading of the clock that a queue's timed events use.
	Clock = dispatch.Clock
	// EventError says why an event can't be waited for, and names both calls.
	EventError = dispatch.EventError
	// TransferError says why a transfer doesn't fit its buffer.
	TransferError = dispatch.TransferError
	// OutOfMemoryError says what was asked for, what is free, and what the rest is allocated to.
	OutOfMemoryError = allocator.OutOfMemoryError
	// OccupiedError says what already lies where a buffer was to be, at a fixed address.
	OccupiedError = allocator.OccupiedError
)

const (
	// Wormhole is Wormhole B0.
	Wormhole = chip.Wormhole
	// Blackhole is Blackhole A0.
	Blackhole = chip.Blackhole

	// BRISC and NCRISC are the data-movement processors of a worker, TRISC0 to TRISC2 its compute processors.
	BRISC  = chip.BRISC
	NCRISC = chip.NCRISC
	TRISC0 = chip.TRISC0
	TRISC1 = chip.TRISC1
	TRISC2 = chip.TRISC2

	// DRAM is memory in the chip's DRAM banks, L1 memory in the workers' SRAM.
	DRAM = allocator.DRAM
	L1   = allocator.L1
	// L1Small is the top of the workers' L1, as far as WithL1Small sets it apart: for small sharded buffers.
	L1Small = allocator.L1Small

	// Interleaved deals pages to all banks in turn; the others deal shards: whole rows of pages, whole columns, rectangles,
	// or boxes of any rank.
	Interleaved   = allocator.Interleaved
	HeightSharded = allocator.HeightSharded
	WidthSharded  = allocator.WidthSharded
	BlockSharded  = allocator.BlockSharded
	NDSharded     = allocator.NDSharded

	// RowMajor deals shards along the rows of cores, ColMajor along the columns.
	RowMajor = allocator.RowMajor
	ColMajor = allocator.ColMajor
)

// Path names a device node of the kernel driver, such as /dev/tenstorrent/0.
func Path(p string) Target { return kmd.Path(p) }

// Grid returns the range of w by h workers whose first core is (0,0).
func Grid(w, h int) Range { return Range{End: Core{X: w - 1, Y: h - 1}} }

// Single returns the range of one worker.
func Single(x, y int) Range { return chip.Single(x, y) }

type options struct {
	dispatch    dispatch.Options
	traceRegion uint64
	l1Small     uint64
	usageLog    string
}

// Option changes how Open sets a device up.
type Option func(*options)

// WithQueues asks for n command queues, 1 or 2. The default is 1. Every queue moves data and runs programs and traces;
// see WithQueueWorkers. Nothing but events and what the host waits for orders two queues. That goes for memory too: what
// one queue still reads or writes must not be freed and reused by the other without an event between them.
func WithQueues(n int) Option { return func(o *options) { o.dispatch.Queues = n } }

// WithQueueWorkers gives a queue the workers that its programs may use. A queue that is given none uses the whole grid.
// The workers of two queues are either disjoint, and then their programs run at the same time, or the same, and then the
// workers pass from one queue to the other: the queue that uses them next must come after the other's last program or
// replay, by an event that was recorded on the other queue after it and waited for on this one, or because the host has
// waited for it. Otherwise Run and Replay return an *OverlapError.
func WithQueueWorkers(queue int, workers Range) Option {
	return func(o *options) {
		m := maps.Clone(o.dispatch.Workers)
		if m == nil {
			m = map[int]Range{}
		}
		m[queue] = workers
		o.dispatch.Workers = m
	}
}

// WithFirstEvent sets the number before the first of the 32-bit ids of events. Tests use it to make them wrap. The default
// is 0.
func WithFirstEvent(n uint32) Option { return func(o *options) { o.dispatch.FirstEvent = n } }

// WithQueueMemory sets the pinned host memory of each command queue in bytes. The default is 16 MiB. Three quarters
// of it hold commands and data on their way to the device, the rest what comes back.
func WithQueueMemory(n uint32) Option { return func(o *options) { o.dispatch.QueueMemory = n } }

// WithTraceRegion reserves n bytes over all DRAM banks for traces. Without it, or with 0, traces take what they need
// from the top of every bank as long as no buffer is in the way.
func WithTraceRegion(n uint64) Option { return func(o *options) { o.traceRegion = n } }

// WithL1Small reserves n bytes at the top of each worker's L1 for small sharded buffers.
func WithL1Small(n uint64) Option { return func(o *options) { o.l1Small = n } }

// WithHangTimeout sets how long a wait may last without any progress of the device before it ends in a *HangError.
// The default is 10 s, which 0 stands for too.
func WithHangTimeout(t time.Duration) Option { return func(o *options) { o.dispatch.HangTimeout = t } }

// WithPace sets how long waits on the host spin before they sleep, and how long they sleep at most between polls. Longer
// spinning sees results earlier and costs processor time. 0 stands for the defaults, some microseconds and 1 ms. Nothing
// polls while no call waits.
func WithPace(spin, longest time.Duration) Option {
	return func(o *options) { o.dispatch.Pace = dispatch.Pace{Spin: spin, Longest: longest} }
}

// WithStockWireFormat makes queues send programs and replays in the wire form of tt-metal alone, of the revision that this
// runtime follows: each command of the dispatcher in a relay and a page of its own, go signals through the prefetcher. The
// device's firmware takes both forms. Without the option small commands share relays and pages. It is for comparisons, by
// people and by tests; it costs bytes and time.
func WithStockWireFormat() Option { return func(o *options) { o.dispatch.StockWireFormat = true } }

// WithDumpDir makes every *HangError write a file to a directory, for "reprise inspect". The error names the file.
func WithDumpDir(dir string) Option { return func(o *options) { o.dispatch.DumpDir = dir } }

// WithUsageLog puts the file that shows other processes how much device memory is in use, for "reprise monitor", into
// a directory, or turns it off for an empty name. The default is /dev/shm. Open succeeds without the file; Device.UsageLog says why there is none. A change of
// the memory in use costs a few stores and no system call.
func WithUsageLog(dir string) Option { return func(o *options) { o.usageLog = dir } }

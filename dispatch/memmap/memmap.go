// Package memmap is the memory map of a command queue: the L1 of its two cores and pinned host
// memory.
package memmap

import (
	"encoding/binary"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Sizes on Tensix dispatch cores. Source: tt-metal dispatch_settings.cpp.
const (
	PageSize            = 4096
	FetchEntries        = 1534      // of the prefetch queue
	MaxCommandSize      = 128 << 10 // of a prefetch queue entry
	ScratchSize         = 128 << 10
	BinaryRingSize      = 1 << 20 // at the scratch buffer's address
	DispatchPages       = 128
	SubordinatePages    = 128 // of SubordinatePageSize
	SubordinatePageSize = 256
	MaxQueues           = 2

	cmdDataSize     = 256 << 10
	dispatchBlocks  = 4 // in which the dispatcher gives pages back
	dispatchRing    = 0x1A000
	subordinateRing = dispatchRing + DispatchPages*PageSize
	maxPackedCores  = 800 // of one WRITE_PACKED, and twice the most rectangles
)

// Bytes of a prefetch queue entry: own firmware's, and newer of tt-metal.
const (
	FetchEntryBytes = 2
	WideFetchEntry  = 4
)

// SlotArgs is the bytes of a processor's arguments in the kernel-config memory of a command-queue
// core. Semaphores follow, 16 bytes apart.
const SlotArgs = 128

// Control is the L1 map of a command queue. What differs between the queues of a device is that of
// queue 0. tt-metal lacks the fields beside abi.Queue.
type Control struct {
	abi.Queue
	EdgeWord  [MaxQueues]uint32 // dispatch core: recordings of each queue's part of a trace on several queues
	Forwarded uint32            // dispatch core: commands forwarded to the subordinate
	ArgWords  uint32            // dispatch core: words that become arguments; 0 for none
	Times     uint32            // dispatch core; 0 for none
	Loops     uint32            // prefetch core; 0 without control flow
}

// Own returns the map of this runtime's own kernels. Source: tt-metal command_queue_common.cpp and
// dispatch_mem_map.cpp.
func Own(l *abi.Layout) Control {
	base := l.L1.Unreserved
	align := l.Arch.Params().Align.PCIe()
	up := func(a uint32) uint32 { return (a + align - 1) &^ (align - 1) }
	c := Control{Queue: abi.Queue{
		FetchRead: base, IssueRead: base + 4,
		CompletionWrite: base + 0x10, CompletionRead: base + 0x20,
		LastEvent: [MaxQueues]uint32{base + 0x30, base + 0x40},
		SyncWords: base + 0x50,
		// 0xD0 and 0x150 are the fabric words of split queues.
		FetchQueue: up(base + 0x160), FetchQueueSize: FetchEntries * FetchEntryBytes, FetchEntry: FetchEntryBytes,
		CommandsSize: cmdDataSize, ScratchSize: ScratchSize, BinaryRingSize: BinaryRingSize,
		DispatchCredits: 0, SubordinateCredits: 1, Sync: 2,
		DispatchRing: dispatchRing, DispatchPageSize: PageSize, DispatchPages: DispatchPages, DispatchBlocks: dispatchBlocks,
		SubordinateRing: subordinateRing, SubordinatePageSize: SubordinatePageSize, SubordinatePages: SubordinatePages,
		DispatchPublished: 0, SubordinatePublished: 1,
		SubDevices: cq.MaxSubDevices, PackedCores: maxPackedCores,
	}}
	c.Commands = up(c.FetchQueue + c.FetchQueueSize)
	c.Scratch = up(c.Commands + c.CommandsSize)
	c.Loops = (c.Scratch + max(c.ScratchSize, c.BinaryRingSize) + 63) &^ 63
	// The dispatch core is free from the fetch queue's address up to the dispatch ring.
	c.PlaceOwnWords(c.FetchQueue)
	c.ArgWords = (subordinateRing + SubordinatePages*SubordinatePageSize + 63) &^ 63
	c.Times = (c.ArgWords + argWordsSize + 15) &^ 15
	return c
}

// PlaceOwnWords places EdgeWord and Forwarded, which all firmware leaves alone.
func (c *Control) PlaceOwnWords(at uint32) {
	for i := range c.EdgeWord {
		c.EdgeWord[i] = at + 16*uint32(i)
	}
	c.Forwarded = c.EdgeWord[MaxQueues-1] + 16
}

// End returns the address after the words of PlaceOwnWords.
func (c *Control) End() uint32 { return c.Forwarded + forwardedSize }

// argWordsSize is 32 places of 64 bytes for words that are read, 32 of 16 for those that are
// written, and 8 KiB of commands. Source: firmware, struct cq_arg_words in cq_read_arg.h.
const argWordsSize = 32*64 + 32*16 + 8192

// forwardedSize is two counts, 16 bytes apart, and eight commands of 16 bytes, 32 apart. Source:
// firmware, cq_forward.h.
const forwardedSize = 32 + 8*32

// Offsets in the prefetcher's struct cq_control, at Control.Loops. Source: firmware,
// cq_prefetch_control.h.
const (
	LoopsAbort    = 0
	LoopsAborted  = 4
	LoopsReplays  = 8
	loopsDepth    = 12
	loopsFirst    = 16 // entries of loopEntry bytes: number, iterations left, iterations, address of the trace
	loopEntry     = 16
	LoopsLogLimit = loopsFirst + 16*loopEntry
	LoopsLogXY    = LoopsLogLimit + 4
	LoopsLogAddr  = LoopsLogLimit + 8
	LoopsLogged   = LoopsLogLimit + 12
	LoopsSize     = LoopsLogLimit + 48 + 64
)

// The ring at Control.Times has the start and end of every program. Source: firmware, cq_times.h.
const (
	TimesEntries = 1024
	TimesHeader  = 16
	TimesStride  = 16
	TimesSize    = TimesHeader + TimesEntries*TimesStride
)

// Loop is a loop that a queue's prefetcher is in.
type Loop struct {
	Trace     uint32 `json:"trace"`     // address in every DRAM bank
	Loop      uint32 `json:"loop"`      // number in the trace
	Iteration uint32 `json:"iteration"` // from 0
	Of        uint32 `json:"of"`        // iterations, or the most
}

func (l Loop) String() string {
	return fmt.Sprintf("loop %d of the trace at %#x, iteration %d of at most %d", l.Loop, l.Trace, l.Iteration, l.Of)
}

// ParseLoops reads the loops of a struct cq_control, outermost first, and the number of replays
// begun.
func ParseLoops(b []byte) (loops []Loop, replays uint32) {
	le := binary.LittleEndian
	for i := range min(le.Uint32(b[loopsDepth:]), cq.MaxLoops) {
		l := b[loopsFirst+loopEntry*i:]
		count := le.Uint32(l[8:])
		loops = append(loops, Loop{Loop: le.Uint32(l), Iteration: count - le.Uint32(l[4:]), Of: count, Trace: le.Uint32(l[12:])})
	}
	return loops, le.Uint32(b[LoopsReplays:])
}

// Host holds the offsets of a queue's parts in its share of the pinned host memory. Source:
// tt-metal command_queue_common.cpp and system_memory_cq_interface.cpp.
type Host struct {
	Base           uint32 // of the share
	Size           uint32
	CompletionWr   uint32
	CompletionRd   uint32
	Issue          uint32
	IssueSize      uint32
	Completion     uint32
	CompletionSize uint32
}

// OwnHost is a queue's share with this runtime's own kernels, a quarter of it the completion queue.
func OwnHost(p *chip.Params, id int, size uint32) Host {
	a := p.Align.PCIe()
	start := 4 * a
	comp := (size - start) / PageSize / 4 * PageSize
	return Host{
		Base: uint32(id) * size, Size: size,
		CompletionWr: 2 * a, CompletionRd: 3 * a,
		Issue: start, IssueSize: size - start - comp,
		Completion: size - comp, CompletionSize: comp,
	}
}

// MinQueueSize is the smallest share of host memory: two of the largest batches of commands, one to
// write while the other is read, and a few completion pages.
const MinQueueSize = 1 << 20

// ToggleBit of a completion queue's pointer, which counts units of 16 bytes, flips at each wrap.
// Source: tt-metal system_memory_cq_interface.cpp.
const ToggleBit = 1 << 31

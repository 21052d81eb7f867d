package dispatch

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// Sizes of the command queue's parts on Tensix dispatch cores. Source: tt-metal dispatch_settings.cpp.
const (
	fetchEntries        = 1534      // prefetch queue entries
	maxCommandSize      = 128 << 10 // largest batch of one prefetch queue entry
	cmdDataSize         = 256 << 10 // command data buffer of the prefetcher
	scratchSize         = 128 << 10 // its scratch double buffer
	binaryRingSize      = 1 << 20   // its binary cache, at the same address as the scratch buffer
	dispatchPages       = 128       // dispatch ring, in 4 KiB pages
	dispatchBlocks      = 4         // blocks in which the dispatcher gives pages back
	subordinatePages    = 128       // ring of the subordinate dispatcher, in pages of subordinatePageSize
	dispatchRing        = 0x1A000   // L1 address of the dispatch ring on the dispatch core, a multiple of its page
	subordinatePageSize = 256
	subordinateRing     = dispatchRing + dispatchPages*pageSize
	maxQueues           = 2
	maxSubDevices       = 8
	maxPackedCores      = 800 // of one WRITE_PACKED, and twice the most rectangles
)

// controlBlock is where the parts of a command queue lie, and what its kernels count on. What differs between the queues of a
// device is that of queue 0.
type controlBlock struct {
	abi.Queue
	edgeWord  [maxQueues]uint32 // dispatch core: recordings of each queue's part of a trace on several queues; not in tt-metal
	forwarded uint32            // dispatch core: commands forwarded to the subordinate, forwardedSize bytes; not in tt-metal
	argWords  uint32            // dispatch core: words that become arguments, argWordsSize bytes; not in tt-metal
	times     uint32            // dispatch core: when programs ran, timesSize bytes; not in tt-metal
	control   uint32            // prefetch core: loops and aborted replays, controlSize bytes; not in tt-metal
}

// newControlBlock returns the block of this runtime's own kernels. Its words begin where L1 is free for buffers, on the prefetch
// core and on the dispatch core alike. Source: tt-metal command_queue_common.cpp and dispatch_mem_map.cpp.
func newControlBlock(l *abi.Layout) controlBlock {
	base := l.L1.Unreserved
	align := l.Arch.Params().Align.PCIe()
	up := func(a uint32) uint32 { return (a + align - 1) &^ (align - 1) }
	c := controlBlock{Queue: abi.Queue{
		FetchRead: base, IssueRead: base + 4,
		CompletionWrite: base + 0x10, CompletionRead: base + 0x20,
		LastEvent: [maxQueues]uint32{base + 0x30, base + 0x40},
		SyncWords: base + 0x50,
		// 0xD0 and 0x150 are the fabric words of split queues.
		FetchQueue: up(base + 0x160), FetchQueueSize: fetchEntries * fetchEntryBytes, FetchEntry: fetchEntryBytes,
		CommandsSize: cmdDataSize, ScratchSize: scratchSize, BinaryRingSize: binaryRingSize,
		DispatchCredits: 0, SubordinateCredits: 1, Sync: 2,
		DispatchRing: dispatchRing, DispatchPageSize: pageSize, DispatchPages: dispatchPages, DispatchBlocks: dispatchBlocks,
		SubordinateRing: subordinateRing, SubordinatePageSize: subordinatePageSize, SubordinatePages: subordinatePages,
		DispatchPublished: 0, SubordinatePublished: 1,
		SubDevices: maxSubDevices, PackedCores: maxPackedCores,
	}}
	c.Commands = up(c.FetchQueue + c.FetchQueueSize)
	c.Scratch = up(c.Commands + c.CommandsSize)
	c.control = (c.Scratch + max(c.ScratchSize, c.BinaryRingSize) + 63) &^ 63
	// On the dispatch core, the memory from the fetch queue's address up to the dispatch ring is free.
	for i := range c.edgeWord {
		c.edgeWord[i] = c.FetchQueue + 16*uint32(i)
	}
	c.forwarded = c.edgeWord[maxQueues-1] + 16
	c.argWords = (subordinateRing + subordinatePages*subordinatePageSize + 63) &^ 63
	c.times = (c.argWords + argWordsSize + 15) &^ 15
	return c
}

// end returns the address after the words that tt-metal doesn't have, which begin with the first edgeWord.
func (c *controlBlock) end() uint32 { return c.forwarded + forwardedSize }

// controlSize is the size of the prefetcher's struct cq_control: four words, 16 loops of four words, 12 words of the log, and a word of
// memory with what is around it. Source: firmware, cq_prefetch_control.h.
const controlSize = 16 + 16*16 + 48 + 64

// argWordsSize is 32 places of 64 bytes for words that are read and of 16 for those that are written, and 8 KiB of commands. Source:
// firmware, struct cq_arg_words in cq_read_arg.h.
const argWordsSize = 32*64 + 32*16 + 8192

// forwardedSize is two counts, 16 bytes apart, and eight commands of 16 bytes, 32 apart. Source: firmware, cq_forward.h.
const forwardedSize = 32 + 8*32

// hostBlock holds the offsets of one queue's parts in its share of sysmem. Source: tt-metal
// command_queue_common.cpp and system_memory_cq_interface.cpp.
type hostBlock struct {
	base         uint32 // of the share, in sysmem
	size         uint32
	completionWr uint32 // word that the dispatcher publishes its pointer in
	completionRd uint32 // mirror of the host's pointer
	issue        uint32
	issueSize    uint32
	completion   uint32
	completionSz uint32
}

func newHostBlock(p *chip.Params, id int, size uint32) hostBlock {
	a := p.Align.PCIe()
	start := 4 * a
	comp := (size - start) / pageSize / 4 * pageSize
	return hostBlock{
		base: uint32(id) * size, size: size,
		completionWr: 2 * a, completionRd: 3 * a,
		issue: start, issueSize: size - start - comp,
		completion: size - comp, completionSz: comp,
	}
}

// minQueueSize is the smallest share of sysmem that a queue works in: two of the largest batches of commands, so
// that one can be written while the other is read, and a few completion pages.
const minQueueSize = 1 << 20

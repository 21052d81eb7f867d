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
)

// controlBlock holds the L1 addresses of the words that host, prefetcher and dispatcher share. The block starts where
// L1 is free for buffers, on the prefetch core and on the dispatch core alike. Source: tt-metal
// command_queue_common.cpp and dispatch_mem_map.cpp.
type controlBlock struct {
	fetchRead     uint32            // prefetch core: address of the prefetch queue entry that was taken last
	pcieRead      uint32            // prefetch core: where in sysmem it reads next
	completionWr  uint32            // dispatch core
	completionRd  uint32            // dispatch core: the host's pointer
	lastEvent     [maxQueues]uint32 // dispatch core: last event seen of each queue
	syncSemaphore uint32            // dispatch core: eight words, 16 bytes apart
	edgeWord      [maxQueues]uint32 // dispatch core: recordings of each queue's part of a trace on several queues; not in tt-metal
	forwarded     uint32            // dispatch core: commands forwarded to the subordinate, forwardedSize bytes; not in tt-metal
	fetchQueue    uint32            // prefetch core
	cmdData       uint32
	scratch       uint32
}

func newControlBlock(l *abi.Layout) controlBlock {
	base := l.L1.Unreserved
	align := l.Arch.Params().Align.PCIe()
	up := func(a uint32) uint32 { return (a + align - 1) &^ (align - 1) }
	c := controlBlock{
		fetchRead: base, pcieRead: base + 4,
		completionWr: base + 0x10, completionRd: base + 0x20,
		lastEvent:     [maxQueues]uint32{base + 0x30, base + 0x40},
		syncSemaphore: base + 0x50,
		// 0xD0 and 0x150 are the fabric words of split queues.
		fetchQueue: up(base + 0x160),
	}
	// On the dispatch core, the memory from the fetch queue's address up to the dispatch ring is free.
	for i := range c.edgeWord {
		c.edgeWord[i] = c.fetchQueue + 16*uint32(i)
	}
	c.forwarded = c.edgeWord[maxQueues-1] + 16
	c.cmdData = up(c.fetchQueue + fetchEntries*fetchEntryBytes)
	c.scratch = up(c.cmdData + cmdDataSize)
	return c
}

// forwardedSize is two counts, 16 bytes apart, and eight commands of 16 bytes, 32 apart. Source: firmware, cq_forward.h.
const forwardedSize = 32 + 8*32

// hostBlock holds the offsets of one queue's parts in its share of sysmem. Source: tt-metal
// command_queue_common.cpp and system_memory_cq_interface.cpp.
type hostBlock struct {
	completionWr uint32 // word that the dispatcher publishes its pointer in
	completionRd uint32 // mirror of the host's pointer
	issue        uint32
	issueSize    uint32
	completion   uint32
	completionSz uint32
}

func newHostBlock(p *chip.Params, size uint32) hostBlock {
	a := p.Align.PCIe()
	start := 4 * a
	comp := (size - start) / pageSize / 4 * pageSize
	return hostBlock{
		completionWr: 2 * a, completionRd: 3 * a,
		issue: start, issueSize: size - start - comp,
		completion: size - comp, completionSz: comp,
	}
}

// minQueueSize is the smallest share of sysmem that a queue works in: two of the largest batches of commands, so
// that one can be written while the other is read, and a few completion pages.
const minQueueSize = 1 << 20

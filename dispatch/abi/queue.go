package abi

import (
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
)

// Queue is what the three kernels of a command queue and the host agree on. tt-metal compiles these
// values into the kernels; this runtime's kernels get them as arguments. Addresses are bytes of L1
// on the core of the field's group, or, for host memory, the low 32 bits of NoC addresses.
type Queue struct {
	// as commands name a tile
	PrefetchCore, DispatchCore uint32

	// On the prefetch core.
	FetchQueue     uint32
	FetchQueueSize uint32
	FetchEntry     uint32
	FetchRead      uint32
	IssueRead      uint32 // word: where in the issue queue the prefetcher reads next
	Commands       uint32
	CommandsSize   uint32
	Scratch        uint32
	ScratchSize    uint32
	BinaryRingSize uint32
	// Semaphore ids: free pages of both rings, and the notifications that a STALL waits for.
	DispatchCredits, SubordinateCredits, Sync uint32

	// On the dispatch core.
	DispatchRing                            uint32
	DispatchPageSize                        uint32
	DispatchPages                           uint32
	DispatchBlocks                          uint32
	SubordinateRing                         uint32
	SubordinatePageSize                     uint32
	SubordinatePages                        uint32
	DispatchPublished, SubordinatePublished uint32
	CompletionWrite                         uint32
	CompletionRead                          uint32
	LastEvent                               [MaxQueues]uint32
	SyncWords                               uint32 // a word for each sub-device, 16 bytes apart: programs that may be started

	HostMemory           uint64 // on the NoC, with the bits that lead to the PCIe tile
	HostTile             uint32 // PCIe tile, as commands name a tile
	Base                 uint32 // of the queue's share
	Issue                uint32 // queue
	IssueSize            uint32
	Completion           uint32 // queue
	CompletionSize       uint32
	CompletionWriteWords uint32 // offset from Base of the dispatcher's pointer

	Go          uint32 // go messages
	FirstStream uint32 // of sub-device 0
	SubDevices  uint32
	Workers     uint32
	NumWorkers  uint32
	PackedCores uint32 // most cores of one WRITE_PACKED, and twice the most rectangles

	WaitStream, ClearStream uint32
}

// MaxQueues is the number of command queues that a chip may have.
const MaxQueues = 2

// End returns the address of the first byte of host memory after the queue's share.
func (q *Queue) End() uint32 { return q.Completion + q.CompletionSize }

// QueueForm is the variation among tt-metal's command-queue kernels with one memory map.
type QueueForm struct {
	FetchEntry              uint32 // bytes
	Progress                bool   // a word in which the dispatcher counts commands lies before the prefetch queue
	WaitStream, ClearStream uint32 // of a WAIT
}

// QueueForms returns the forms of the revision's command-queue kernels, the usual one first; nil
// for this runtime's own. Source: tt-metal cq_commands.hpp, dispatch_settings.hpp,
// dispatch_mem_map.cpp.
func (l *Layout) QueueForms() []QueueForm {
	if l.Revision.Own() {
		return nil
	}
	wait := QueueForm{FetchEntry: 2, Progress: true, WaitStream: 8, ClearStream: 16}
	later := func(first string) bool { return slices.Compare(versionOf(l.Revision.Last), versionOf(first)) >= 0 }
	if later("0.74.0") { // cq_commands.hpp
		wait.WaitStream, wait.ClearStream = 0x10, 0x20
	}
	wide := wait
	wide.FetchEntry = 4
	switch {
	case later("0.71.2"): // cq_prefetch.cpp has both
		return []QueueForm{wide, wait}
	case !later("0.67.0"):
		wait.Progress = false
	}
	return []QueueForm{wait}
}

func versionOf(wheel string) (out []int) {
	for part := range strings.SplitSeq(wheel, ".") {
		n, _ := strconv.Atoi(part) // 0 for what isn't a number
		out = append(out, n)
	}
	return out
}

// QueuePlace is what tt-metal's host compiles into the kernels of a command queue for one kind of
// card.
type QueuePlace struct {
	PrefetchCore, DispatchCore uint32
	HostTile                   uint32 // the PCIe tile
	Workers                    uint32
	NumWorkers                 uint32
	Base, Size                 uint32 // of the queue's share of host memory, in bytes
}

// Source: tt-metal dispatch_settings.cpp.
const (
	queueEntries     = 1534
	queueCommands    = 256 << 10
	queueScratch     = 128 << 10
	queueBinaries    = 1 << 20
	queuePage        = 4 << 10
	queuePages       = 128
	queueBlocks      = 4
	subordinatePage  = 256
	subordinatePages = 128
	queueSubDevices  = 8
	queueStream      = 48
	fabricHeader     = 128
)

// MetalQueue returns the constants that tt-metal's host compiles into the kernels of a command
// queue. Source: tt-metal dispatch_mem_map.cpp, command_queue_common.cpp,
// kernel_config/{prefetch,dispatch,dispatch_s}.cpp, and the order in which these create semaphores.
func (l *Layout) MetalQueue(f QueueForm, at QueuePlace) Queue {
	align := l.Arch.Params().Align.PCIe()
	up := alignUp
	base := l.L1.Unreserved
	q := Queue{
		PrefetchCore: at.PrefetchCore, DispatchCore: at.DispatchCore,
		FetchEntry: f.FetchEntry, FetchQueueSize: queueEntries * f.FetchEntry,
		FetchRead: base, IssueRead: base + 4,
		CommandsSize: queueCommands, ScratchSize: queueScratch, BinaryRingSize: queueBinaries,
		DispatchCredits: 0, Sync: 1, SubordinateCredits: 2,
		DispatchPageSize: queuePage, DispatchPages: queuePages, DispatchBlocks: queueBlocks,
		SubordinatePageSize: subordinatePage, SubordinatePages: subordinatePages,
		DispatchPublished: 0, SubordinatePublished: 1,
		CompletionWrite: base + 0x10, CompletionRead: base + 0x20,
		SyncWords: base + 0x30 + 16*MaxQueues,
		HostTile:  at.HostTile, HostMemory: uint64(at.HostTile)<<36 | pcieSpace(l.Arch),
		Base: at.Base, Issue: at.Base + 4*align, CompletionWriteWords: 2 * align,
		Go: l.L1.Go, FirstStream: queueStream, SubDevices: queueSubDevices,
		Workers: at.Workers, NumWorkers: at.NumWorkers, PackedCores: at.NumWorkers,
		WaitStream: f.WaitStream, ClearStream: f.ClearStream,
	}
	for i := range q.LastEvent {
		q.LastEvent[i] = base + 0x30 + 16*uint32(i)
	}
	words := up(q.SyncWords+16*queueSubDevices, 16) + fabricHeader + 4 // the fabric's status
	if f.Progress {
		words += 16
	}
	q.FetchQueue = up(words, align)
	q.Commands = up(q.FetchQueue+q.FetchQueueSize, align)
	q.Scratch = up(q.Commands+q.CommandsSize, align)
	q.DispatchRing = up(q.FetchQueue, queuePage)
	q.SubordinateRing = q.DispatchRing + queuePages*queuePage
	q.CompletionSize = (at.Size - 4*align) / queuePage / 4 * queuePage
	q.IssueSize = at.Size - 4*align - q.CompletionSize
	q.Completion = q.Issue + q.IssueSize
	return q
}

// pcieSpace returns the bits of a NoC address that lead from the PCIe tile to host memory. Source:
// tt-metal noc_parameters.h (NOC_XY_PCIE_ENCODING).
func pcieSpace(a chip.Arch) uint64 {
	if a == chip.Wormhole {
		return 0x8_0000_0000
	}
	return 1 << 60
}

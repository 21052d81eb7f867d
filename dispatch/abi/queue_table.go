package abi

import "github.com/reprise-tt/reprise/chip"

// QueueForm is the variation among tt-metal's command-queue kernels with one memory map.
type QueueForm struct {
	FetchEntry              uint32 // bytes of an entry of the prefetch queue
	Progress                bool   // a word in which the dispatcher counts commands lies before the prefetch queue
	WaitStream, ClearStream uint32 // flags of a WAIT
}

// QueueForms returns the forms of the revision's command-queue kernels, the usual one first; nil
// for this runtime's own. Source: tt-metal cq_commands.hpp, dispatch_settings.hpp,
// dispatch_mem_map.cpp.
func (l *Layout) QueueForms() []QueueForm {
	for _, t := range tables() {
		if t.revision == l.Revision {
			return t.queues
		}
	}
	return nil
}

// QueuePlace is what tt-metal's host compiles into the kernels of a command queue for one kind of
// card: cores as commands name them, workers, and the queue's share of host memory.
type QueuePlace struct {
	PrefetchCore, DispatchCore uint32
	HostTile                   uint32 // the PCIe tile
	Workers                    uint32 // rectangle of all workers on NoC 0
	NumWorkers                 uint32
	Base, Size                 uint32 // of the queue's share of host memory, in bytes
}

// Sizes of a command queue's parts on Tensix cores. Source: tt-metal dispatch_settings.cpp.
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
// queue. The layout is one of tt-metal's. Source: tt-metal dispatch_mem_map.cpp,
// command_queue_common.cpp, kernel_config/{prefetch,dispatch,dispatch_s}.cpp, and the order in
// which these create semaphores.
func (l *Layout) MetalQueue(f QueueForm, at QueuePlace) Queue {
	align := l.Arch.Params().Align.PCIe()
	up := func(a, n uint32) uint32 { return (a + n - 1) &^ (n - 1) }
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
	words := up(q.SyncWords+16*queueSubDevices, 16) + fabricHeader + 4 // the last word is the fabric's status
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

package abi

// Queue is what the three kernels of a command queue and the host agree on: rings, words, cores,
// workers and host memory. tt-metal compiles these values into the kernels; this runtime's kernels
// get them as arguments. Addresses are bytes of L1 on the core of the field's group, or, for host
// memory, the low 32 bits of NoC addresses.
type Queue struct {
	// The two cores, as commands name a tile.
	PrefetchCore, DispatchCore uint32

	// On the prefetch core.
	FetchQueue     uint32 // ring of FetchQueueSize bytes, entries of FetchEntry bytes
	FetchQueueSize uint32
	FetchEntry     uint32
	FetchRead      uint32 // word: address of the entry taken last
	IssueRead      uint32 // word: where in the issue queue the prefetcher reads next
	Commands       uint32 // buffer of fetched commands, CommandsSize bytes
	CommandsSize   uint32
	Scratch        uint32 // double buffer of relayed data, ScratchSize bytes
	ScratchSize    uint32
	BinaryRingSize uint32 // bytes of the binary cache, which begins at Scratch
	// Semaphore ids: free pages of both rings, and the notifications that a STALL waits for.
	DispatchCredits, SubordinateCredits, Sync uint32

	// On the dispatch core.
	DispatchRing        uint32 // DispatchPages pages of DispatchPageSize bytes, released in DispatchBlocks blocks
	DispatchPageSize    uint32
	DispatchPages       uint32
	DispatchBlocks      uint32
	SubordinateRing     uint32 // SubordinatePages pages of SubordinatePageSize bytes
	SubordinatePageSize uint32
	SubordinatePages    uint32
	// Semaphore ids: pages published in both rings.
	DispatchPublished, SubordinatePublished uint32
	CompletionWrite                         uint32 // word: the dispatcher's pointer into the completion queue
	CompletionRead                          uint32 // word: the host's pointer
	LastEvent                               [MaxQueues]uint32
	SyncWords                               uint32 // a word for each sub-device, 16 bytes apart: programs that may be started

	// Host memory.
	HostMemory           uint64 // address on the NoC, with the bits that lead to the PCIe tile
	HostTile             uint32 // the PCIe tile, as commands name a tile
	Base                 uint32 // of the queue's share
	Issue                uint32 // issue queue, IssueSize bytes
	IssueSize            uint32
	Completion           uint32 // completion queue, CompletionSize bytes
	CompletionSize       uint32
	CompletionWriteWords uint32 // offset from Base of the word that the dispatcher publishes its pointer in

	// Workers.
	Go          uint32 // go messages
	FirstStream uint32 // completion stream of sub-device 0
	SubDevices  uint32
	Workers     uint32 // rectangle that go signals are multicast to, as commands name it on NoC 0
	NumWorkers  uint32
	PackedCores uint32 // most cores of one WRITE_PACKED, and twice the most rectangles

	// Flags of a WAIT.
	WaitStream, ClearStream uint32
}

// MaxQueues is the number of command queues that a chip may have.
const MaxQueues = 2

// End returns the address of the first byte of host memory after the queue's share.
func (q *Queue) End() uint32 { return q.Completion + q.CompletionSize }

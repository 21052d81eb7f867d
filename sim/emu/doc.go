// Package emu is a functional emulator of Wormhole B0 and Blackhole in pure Go. It models one chip
// as a PCI function: configuration space, three BARs, and access to host memory. Behind them are
// the five RISC-V processors of every Tensix tile, both NoCs with translation of coordinates, L1,
// DRAM, stream counters, TLB windows, the outbound iATU, and the ARC processor's start-up services.
//
// # Strictness
//
// What silicon leaves undefined is refused: the chip stops, later loads answer all-ones as from a
// card that fell off the bus, and [Chip.Fault] returns a [*Refusal] with category, tile, core,
// program counter and address. Categories and refusals are those of the vendor's simulator (ttsim
// docs/sim_error_handling.md). As tt-isa-documentation allows, this emulator also has all NIU
// counters, atomics of any width at any word of a line, compare-and-swap and swaps,
// CLEAR_OUTSTANDING_REQ_CNT with any mask, mailboxes of four values with queries, PCBufs, BRISC's
// access to all threads' GPRs, and loads of Blackhole's NCRISC_RESET_PC. It has no
// floating-point extension of Blackhole's TRISCs.
//
// A wrong count of multicast destinations and a poll of a word that is never written only hang.
// [Chip.Cores] then says what every processor waits for.
//
// # Races
//
// [Config.RefuseRaces] follows each NoC request that touches L1 until a processor of the tile has
// loaded an NIU counter that shows the request to be done, so it finds races that were won. It
// refuses, naming both sides:
//
//   - a change of the source of a write before its WRITE_REQS_OUTGOING_ID was seen at zero, or all
//     acknowledgements of its id were. A count of sent writes is not enough (Counters.md);
//   - an access to the destination of a read before its response was seen to be counted;
//   - a load of another tile's unacknowledged write after a signal (an atomic, or a write of a
//     word) that the sender started later on another path: another NoC, static virtual channel or
//     target;
//   - the end of a program (an update of a stream from [chip.StreamParams].FirstDispatch on) before
//     the tile has seen its reads, acknowledged writes and atomics done, and posted writes sent;
//   - a command of an Ethernet transmit queue that was not seen ready since its last one;
//   - NCRISC's instruction RAM: filling it while the branch predictor may fetch from it, and
//     executing it before the mover was seen idle (BabyRISCV/InstructionRAM.md);
//   - what Tensix engines do right only by speed ([tensix.Engine.RefuseHazards]).
//
// It doesn't find a signal that another processor passes on before the acknowledgement, requests
// that the host starts through registers, and all but the newest 512 unacknowledged writes to a
// tile. A write and an atomic on one path are taken to be ordered.
//
// # Shared memory
//
// [Config.RefuseRaces] also refuses two accesses of different agents to the same bytes of L1, DRAM
// or host memory, or to the same 16 rows of Dst, at least one a write, that nothing orders. Agents
// are the processors and the host, each with a vector clock; a request acts for the processor that
// started it, a Tensix instruction for its thread's T core. These order accesses:
//
//   - the program, but a store to L1 is ordered before a register store, a request, a mailbox or a
//     reset only if it was read back (BabyRISCV/MemoryOrdering.md): by a used load of the same
//     address, or of any address after three more stores; on Blackhole also by a fence or an AMO;
//   - a poll: a load from L1 whose value decides a branch learns what the writer knew;
//   - an atomic: the word collects what all agents that change it know;
//   - a NoC read of at most 16 bytes, which may be a poll;
//   - a load of an NIU counter that shows requests done, from whoever started them;
//   - a load of a stream counter, mailbox, PCBuf, semaphore or configuration word, from stores to
//     its kind;
//   - SEMWAIT, from whatever has changed the semaphore before;
//   - Tensix instructions that use a mutex, or fill or free a bank of SrcA or SrcB;
//   - putting a processor into reset, from it, and releasing it, to it;
//   - the host's reads through windows, and writes to host memory.
//
// Code must be ordered before its fetch. No program with these edges is refused. Not found are
// racing values that only decide a branch, posted writes to DRAM and host memory that others are
// told of too early, and code in the instruction RAM.
//
// # Ethernet
//
// [NewMachine] links the Ethernet tiles of several chips. Their base firmware is not code on the
// tile: it starts applications, and on Wormhole carries out the commands with which a host reaches
// chips without a PCI interface. Packets of one queue arrive in order, those of different queues in
// any order. A packet counts as an access of the host at its target, also for the checks.
//
// # Peers
//
// Cards reach each other's BARs where the driver maps them (MAP_PEER_BAR), and never wait for each
// other: writes are posted and stay in order, and a chip that is a megabyte ahead of its peers
// stops until they have caught up. Reads of peers by the host through the PCIe tile and by the
// controller's DMA engines are refused.
//
// # Time
//
// Processors run in slices of a few thousand instructions in an order drawn from [Config.Seed]. A
// processor whose loop only polls is parked until something that it read has changed; its rounds
// are neither executed nor counted. Tensix engines run after the slices of a round, those of
// different tiles on [Config.Workers] goroutines; a core that observes them waits for that. A run
// depends on the seed and not on the number of goroutines. NoC requests complete inside the store
// that starts them, except in windows and with [Config.Delay].
//
// # Windows
//
// With [Config.Parallel], while at least four tiles have runnable processors, a part of a round is
// a window: tiles run at the same time and see nothing of each other. What leaves a tile is
// delivered at the window's end, in a drawn order; a processor that loads a counter of answers
// waits for that. Reads and writes of DRAM are answered at once unless they might overtake another
// request of the tile. Ethernet tiles take no part, and there are no windows with Delay,
// RefuseCounters and the checks that make processors slower.
package emu

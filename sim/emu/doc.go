// Package emu is a functional emulator of Wormhole B0 and Blackhole in pure Go. It models one chip
// as a PCI function: configuration space, three BARs, and access to host memory. Behind them are
// the five RISC-V processors of every Tensix tile, both NoCs with translation of coordinates, L1,
// DRAM, stream counters, TLB windows, the outbound iATU and as much of the ARC processor as
// start-up code asks for.
//
// # Strictness
//
// What silicon leaves undefined is refused: the chip stops, every later load answers all-ones as a
// card that fell off the bus does, and [Chip.Fault] returns a [*Refusal] that names the category,
// the tile, the core, its program counter and the address. Categories are those of the vendor's
// simulator (ttsim docs/sim_error_handling.md), and what that simulator refuses is refused here
// too, with these exceptions, each of which silicon documents:
//
//   - all NIU counters of tt-isa-documentation WormholeB0/NoC/Counters.md can be read, not six of
//     them;
//   - atomic increments at any word of a 16-byte line, of any width, and compare-and-swap and swaps
//     (Atomics.md);
//   - CLEAR_OUTSTANDING_REQ_CNT with any mask;
//   - mailboxes hold four values and can be queried (BabyRISCV/Mailboxes.md);
//   - NCRISC_RESET_PC can be read back on Blackhole.
//
// The Tensix engines are those of package tensix, which names what they refuse with the thread and
// the instruction. The floating-point extension of Blackhole's TRISCs is not emulated.
//
// Some things that silicon also refuses, or lets hang, show only as a hang here: a count of
// multicast destinations that software got wrong, and a poll of a word that is never written.
// [Chip.Dump] says what every processor waits for, and which NIUs it waits for have nothing under
// way.
//
// # Checks by option
//
// [Config.RefuseUnwritten], [Config.RefuseStaleCode], [Config.RefuseRaces],
// [Config.RefuseCounters], [Config.RefuseOverflow], [Config.RefuseUnmapped], [Config.DataCache] and
// [Config.Delay] go further. They cost nothing when they are off. A reset of the card forgets what
// they know.
//
// # Races
//
// [Config.RefuseRaces] follows each NoC request that touches L1 until a processor of the tile has
// loaded an NIU counter with a value that it only has when the request is done. So a race is found
// whether or not the NoC was quick enough this time. Refused are, with both sides by name:
//
//   - a store, atomic, read or write that changes the source of a write before its
//     WRITE_REQS_OUTGOING_ID was seen at zero, or all acknowledgements or answers of its id were
//     (counted as sent is not enough, Counters.md). NoC and host may write the same value;
//   - any access to the destination of a read before RD_RESP_RECEIVED was seen to count all reads,
//     or REQS_OUTSTANDING_ID of its id was seen at zero. So a program must not poll the bytes
//     themselves;
//   - a load of what a processor of another tile wrote without seeing it acknowledged, if this tile
//     has seen a signal (an atomic, an inline write, a write of one word) that the sender started
//     later and on another path. A path is NoC, static virtual channel and destination: nothing
//     overtakes on it. A poll of bytes that no such signal told about is accepted;
//   - the end of a program, an update of a stream from [chip.StreamParams].FirstDispatch on, while
//     reads, acknowledged writes or atomics of the tile are under way whose end none of its
//     processors has seen, or posted writes whose source may still be read;
//   - a command of an Ethernet transmit queue that software hasn't seen ready since its last one;
//   - Wormhole's NCRISC: filling its instruction RAM while the branch predictor may fetch from it
//     (BabyRISCV/InstructionRAM.md), and executing it before a load of the status has shown that
//     the mover is done;
//   - what the Tensix engines do right only if a unit is quick enough
//     ([tensix.Engine.RefuseHazards]).
//
// Not found are: a signal that another processor passes on before the acknowledgement (Delay makes
// some of those happen); the order of a write and an atomic on one path, which is taken as given;
// signals by requests that the host starts through registers; all but the newest 512 unacknowledged
// writes to a tile; and, in host mode, the end of a program. Loads of the host of more than 8 bytes
// aren't checked: it keeps whole rings after a hang.
//
// # Stacks and pages
//
// [Config.RefuseOverflow] refuses a stack pointer (x2) that comes down to data in a processor's
// local RAM, and one that leaves it. A chip doesn't know where data end, but programs show it: what
// is stored below the stack pointer is data, since the calling convention has no stack there. A
// kernel's data, which the next one's may overlap, are those that are stored during the outermost
// call through a pointer, by which base firmware runs kernels; they are forgotten when it returns.
// Data that a program only loads, and stores nowhere below the stack pointer, are not known. A
// store through a pointer to a frame that has returned makes data of it: the stack is then refused
// for what the pointer did.
//
// [Config.RefuseCounters] refuses a processor's store to the counter of pages taken from a circular
// buffer, of the streams from [chip.StreamParams].FirstCB on, that overtakes the one of pages put.
// How many pages a buffer has, and how many a kernel has reserved, is only in the kernel's own
// variables. Pages that are put although there is no room are found by [Config.RefuseRaces], as
// stores to what is still being read.
//
// # Waivers
//
// Some programs rely on what no document promises and what works on silicon all the same;
// tt-metal's firmware and kernels are such programs. A [Waiver] lets the instructions of one text
// rely on named [Assumptions]. It is bound to the text and not to a core or an address, and to the
// instructions that it pushes to Tensix engines, so that everything else that a chip executes is
// checked as before. With [Config.Delay], writes of a program with [SentIsRead] are counted as sent
// when their data are read, and requests of one with [ReadInOrder] arrive after the data of its
// earlier writes are read.
//
// # Shared memory
//
// [Config.RefuseRaces] also refuses two accesses to the same bytes of L1, DRAM or host memory by
// different agents, at least one a write, of which neither happens before the other. Agents are the
// processors and the host; a request acts for the processor that started it, with what that knew
// then. Which of the two came first this time does not matter. The refusal names both sides with
// their program counters, the address, and the missing edge. Each agent has a vector clock. The
// edges are:
//
//   - the order of a program, except that its stores to L1, which keep their order, may arrive
//     after what it does elsewhere: a store to a register of the tile, a request, a mailbox or a
//     reset tells of a store to L1 only if that was read back before. Reading back is a load from
//     L1 at the same start address, or at any when three more stores have followed, whose result
//     was used, or which seven instructions have followed (tt-isa-documentation
//     WormholeB0/TensixTile/BabyRISCV/MemoryOrdering.md); on Blackhole also a fence or an atomic
//     memory operation. The same is asked of a processor's own NoC write whose source it has just
//     stored. On Wormhole a load of bytes that one of the last three stores changes is refused if
//     it begins elsewhere, since it may pass that store;
//   - a poll: a load from L1 whose value decides a branch, directly, through arithmetic or by way
//     of local RAM, learns what the writer of the word knew. A load whose value is used otherwise
//     is one of data, and refused if nothing orders it after the last write;
//   - an atomic: the word collects what all agents that change it know, and a load learns it. An
//     increment of a word that was set without an edge, and a store by an agent that has not loaded
//     all increments, are refused: they lose something. A word whose bytes come from several agents
//     without an edge, or to which they write the same value, collects too, and is never refused;
//   - a NoC read of at most 16 bytes, which may be a poll;
//   - a load of an NIU's counter that shows that requests are done, from whoever started them.
//     Until then what a request reads is being read, and what a non-posted request writes to DRAM
//     is being written: telling others earlier tells them nothing of it;
//   - a load of a stream's counter, a mailbox, a Tensix semaphore or configuration word, from the
//     stores to any of its kind;
//   - putting a processor into reset, from it, and releasing it, to it;
//   - all that the host reads through a window, and all that is written to host memory, to the
//     host; its stores keep their order.
//
// Code must be ordered before the processor that fetches it, and nothing may change an instruction
// of the line of 64 bytes that a processor executes. Whether an instruction cache holds old code is
// for [Config.RefuseStaleCode].
//
// No program that has these edges is refused. Not found are: a racing value that only decides a
// branch; reads by more than two agents since the last write; a value used 256 loads after its own;
// an edge that only exists because a load came late; stores of the host, and what it and the card
// do in host memory; code in the instruction RAM; knowledge of some hundred changes ago, for which
// later knowledge is taken; posted writes to DRAM, and writes to host memory, that others are told
// of too early; and the order of stores to registers and later stores to L1.
//
// # Ethernet
//
// [NewMachine] makes chips whose Ethernet tiles are linked. A tile has its processors (one on
// Wormhole, two on Blackhole), the transmit queues of both chips, and what its base firmware leaves
// in L1: state of the link, the chips at both ends, a heartbeat. That firmware is not code on the
// tile: it starts applications as the real one does (Wormhole's launch flag, Blackhole's mailbox),
// and on Wormhole carries out the commands with which a host reaches chips without a PCI interface,
// words, blocks in L1 or host memory, and broadcasts of blocks to tiles of several chips, beside
// whatever the processor runs, until that is held in reset.
//
// Packets of one queue arrive in the order in which they were sent, those of different queues in
// any order. A queue is busy while sixteen of its packets are not taken, and while the link is
// down. What is under way when a link goes down is lost. The reset of a chip is that to its
// neighbours, and the link is up again at once. [Machine.SetLinkFaults] drops, doubles and delays
// packets, which links of silicon never do visibly to software: it is for protocols that are to
// survive it. A packet that arrives counts as an access of the host, also for the checks: what
// happens before what is not followed from chip to chip.
//
// # Peers
//
// Cards reach each other's BARs where the driver maps them (MAP_PEER_BAR), and never wait for each
// other. Writes are posted: those of one card arrive in order, and before what the host stores or
// loads once it knows of them, and a card that is a megabyte ahead of its peers stops until they
// have taken some. A NoC read is answered when the peer gets to it, after all writes before it. The
// host's own reads through the PCIe tile, and those of the controller's DMA engines, which end
// inside the store that starts them, are refused. A peer that has stopped answers all-ones. At the
// peer all of this counts as an access of the host, also for the checks.
//
// # Time
//
// Processors run in slices of a few thousand instructions in an order drawn from [Config.Seed]; a
// slice also ends after a jump back in a loop that may do nothing but wait. A processor that waits
// costs nothing: when an iteration of a loop changed no register and no memory and read only what
// didn't change, it is parked until something of what it read has changed. If it read registers, or
// many places, it is woken when some of that may have changed, and looks. Rounds of loops that
// nothing changes aren't executed, so they aren't counted. A chip on which all processors are
// parked or held in reset uses no processor time of the host.
//
// Tensix engines execute what cores have given them when all cores have had their slice, those of
// different tiles on as many goroutines as [Config.Workers] says. A core that loads what they may
// change (semaphores, GPRs, configuration, whether they are done) before that waits for it, and so
// does one that has given them 256 things. So a run depends on the seed and not on how many
// goroutines there are, and programs that don't use engines run as if there were none. With
// [Config.RefuseRaces] engines execute each instruction inside the store or .ttinsn that pushes it.
//
// NoC requests complete inside the store that starts them, but for windows (see below) and
// [Config.Delay]: with that they are counted as sent, their data are read, arrive, and their
// responses are counted one after the other at later times, in any order that the NoC's rules allow
// (tt-isa-documentation WormholeB0/NoC/Ordering.md), drawn from the seed. A packet's bytes still
// move at once: that units of 16 bytes may be seen in any order is not modelled.
//
// # Idle
//
// Some programs never wait for anything: firmware of idle Ethernet tiles counts in L1, so that a
// host sees it alive. A processor that wasn't woken and stored to no register for 64 slices is
// quiet. With [Config.EasesIdle] quiet processors have a turn in every 16th round while others
// aren't quiet. A chip on which all processors are quiet for 20 ms executes for a twentieth of the
// time, until a host accesses it.
//
// # Windows
//
// With [Config.Parallel] processors of different tiles execute at the same time, on as many
// goroutines as [Config.Workers] says, while at least four tiles have runnable ones. Their slices
// then make a window: a part of a round in which no tile sees what another one does. A tile's
// processors, and those that they wake, run one after another, in an order and for slices that are
// drawn for the tile; what leaves the tile goes to its outbox, in the order of the program. At the
// end of the window the goroutine that runs the chip delivers what is in the outboxes, one tile
// after the other in an order that is drawn. So a run depends on the seed and not on how many
// goroutines there are, as with engines, but it is another one than without windows.
//
// Of a NoC request the tile's own part is done in the store that starts it: it has its virtual
// channel, is counted as sent, and the data of a write are read. It takes effect and is answered at
// the end of the window. A processor that loads a counter of answers to its own requests waits for
// that, so that programs seldom see that a request takes time, and so does one that stores to a
// register while the outbox is full. DRAM, which only requests change, is read at once, but for
// what the tile has written in the window, and writes to it are answered at once: at the end of the
// window they take effect before all other requests, so that whoever hears of one finds it there.
// Neither is so if it might overtake another request of the tile. A tile whose processors don't
// wait leaves the window when they have executed 16,000 instructions.
//
// While fewer tiles have something to do, processors run one after another, as without windows:
// tiles that wait for each other gain nothing. Ethernet tiles never take part. With [Config.Delay],
// [Config.RefuseCounters] and the checks that make processors slower there are no windows.
package emu

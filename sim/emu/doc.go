// Package emu is a functional emulator of Wormhole B0 and Blackhole in pure Go. It models one chip as a PCI function:
// configuration space, three BARs, and access to host memory. Behind them are the five RISC-V processors of every
// Tensix tile, both NoCs with translation of coordinates, L1, DRAM, stream counters, TLB windows, the outbound iATU and
// as much of the ARC processor as start-up code asks for.
//
// # Strictness
//
// What silicon leaves undefined is refused: the chip stops, every later load answers all-ones as a card that fell off
// the bus does, and [Chip.Fault] returns a [*Refusal] that names the category, the tile, the core, its program counter
// and the address. Categories are those of the vendor's simulator (ttsim docs/sim_error_handling.md), and what that
// simulator refuses is refused here too, with these exceptions, each of which silicon documents:
//
//   - all NIU counters of tt-isa-documentation WormholeB0/NoC/Counters.md can be read, not six of them;
//   - atomic increments at any word of a 16-byte line, of any width, and compare-and-swap and swaps (Atomics.md);
//   - CLEAR_OUTSTANDING_REQ_CNT with any mask;
//   - mailboxes hold four values and can be queried (BabyRISCV/Mailboxes.md);
//   - NCRISC_RESET_PC can be read back on Blackhole;
//   - Tensix configuration words without a field of their own can be written and read back, since the coprocessor that
//     they configure is not here.
//
// The Tensix coprocessor, the floating-point extension of Blackhole's TRISCs and the processors of Ethernet tiles are
// not emulated. Instructions for them are refused by name, except those with which base firmware initialises the
// coprocessor, which do nothing or act on its semaphores.
//
// Some things that silicon also refuses, or lets hang, show only as a hang here: a count of multicast destinations that
// software got wrong, and a poll of a word that nobody writes. [Chip.Dump] says what every processor waits for, and
// which NIUs it waits for have nothing under way.
//
// # Checks by option
//
// [Config.RefuseUnwritten], [Config.RefuseStaleCode], [Config.RefuseRaces], [Config.RefuseCounters], [Config.DataCache]
// and [Config.Delay] go further. They cost nothing when they are off. A reset of the card forgets what they know.
//
// # Races
//
// [Config.RefuseRaces] follows each NoC request that touches L1 until software has made sure of it: not until it is
// done, but until somebody has loaded a counter of the tile's NIU with a value that it can only have when the request is
// done. A race is found whether or not the NoC was quick enough this time. Refused are, with both sides by name:
//
//   - a store, atomic, NoC read or NoC write that changes the source of a write before WRITE_REQS_OUTGOING_ID of its
//     transaction id was seen at zero, or all acknowledgements or all answers of that id were (that a write is counted as
//     sent is not enough, Counters.md). NoC and host may write what is there already;
//   - a load, store, atomic or further request on the destination of a read before RD_RESP_RECEIVED was seen to count
//     all reads, or REQS_OUTSTANDING_ID of its id was seen at zero. So a program must not poll the bytes themselves;
//   - a load of bytes that a processor of another tile wrote, if the write was not known to its sender to be acknowledged
//     and a processor of this tile has seen a signal (an atomic, an inline write or a write of one word, to L1 or a
//     stream) that the sender started later and on another path. Paths are the same if NoC, static virtual channel and
//     destination are; then nothing overtakes, and the signal says what it should. A poll of bytes that no such signal
//     told about is left alone, since words may be their own signal.
//
// Not found are: races of processors of one tile that no request is part of; races through DRAM and host memory, and with
// code fetches; a signal that another processor passes on before the acknowledgement (Delay makes some of those
// happen); and the order of stores to different kinds of memory inside one processor (MemoryOrdering.md), which here is
// always that of the program. The order of a write and an atomic on one path is taken as given, as all software does.
// Requests that the host starts through registers have sources and destinations, but signal nothing. Of writes to one
// tile that nobody acknowledged the newest 512 are remembered.
//
// # Time
//
// Processors run in slices of a few thousand instructions in an order drawn from [Config.Seed]. A processor that waits
// costs nothing: when an iteration of a loop changed no register and no memory and read only what nobody changed, it is
// parked until something that it read can change. A chip on which all processors are parked or held in reset uses no
// processor time of the host.
//
// NoC requests complete inside the store that starts them, unless [Config.Delay] is set: then they are counted as sent,
// their data are read, arrive, and their responses are counted one after the other at later times, in any order that the
// NoC's rules allow (tt-isa-documentation WormholeB0/NoC/Ordering.md), drawn from the seed. A packet's bytes still move
// at once: that units of 16 bytes may be seen in any order is not modelled.
package emu

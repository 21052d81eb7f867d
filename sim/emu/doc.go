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
// software got wrong, and a poll of a word that nobody writes. [Chip.Dump] says what every processor waits for. Races
// between a request and a processor are not detected, but [Config.Delay] with many seeds makes them happen. Decoded
// instructions follow memory, so that a forgotten invalidation of the instruction cache goes unnoticed.
//
// # Time
//
// Processors run in slices of a few thousand instructions in an order drawn from [Config.Seed]. A processor that waits
// costs nothing: when an iteration of a loop changed no register and no memory and read only what nobody changed, it is
// parked until something that it read can change. A chip on which all processors are parked or held in reset uses no
// processor time of the host.
//
// NoC requests complete inside the store that starts them, unless [Config.Delay] is set: then their data arrive and
// their responses are counted later, in any order that the NoC's rules allow (tt-isa-documentation
// WormholeB0/NoC/Ordering.md), drawn from the seed.
package emu

// Package core drives the debug interface of the RISC-V processors of a Tensix tile: it pauses and
// resumes them, executes single instructions, reads and writes their registers and what they can
// address, and sets breakpoints and watchpoints.
//
// BRISC and the TRISCs have the interface, NCRISC doesn't: its pc can be sampled (Core.Sample), and
// on Blackhole its local RAM can be read.
//
// Four registers of the tile reach the interface. Sources, for every register and bit here:
// tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/DebugInterface.md and
// WormholeB0/TensixTile/DebugDaisychain.md; for Blackhole and for what the hardware does against
// the documents, tt-exalens ttexalens/hardware/baby_risc_debug.py, blackhole/baby_risc_debug.py and
// wormhole/baby_risc_debug.py.
//
// A process that debugs a tile must be the only one that does: the registers are shared and have no
// lock.
package core

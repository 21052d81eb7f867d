// Package core drives the debug interface of the RISC-V processors of a Tensix tile: it pauses,
// resumes and single-steps them, accesses their registers and memory, and sets breakpoints and
// watchpoints.
//
// BRISC and the TRISCs have the interface, NCRISC doesn't: its pc can be sampled (Core.Sample), and
// on Blackhole its local RAM can be read.
//
// Four registers of the tile reach the interface. Sources of all registers and bits:
// tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/DebugInterface.md and
// WormholeB0/TensixTile/DebugDaisychain.md; for Blackhole and for undocumented behaviour,
// tt-exalens ttexalens/hardware/baby_risc_debug.py, blackhole/baby_risc_debug.py and
// wormhole/baby_risc_debug.py.
//
// Only one process may debug a tile at a time: the registers are shared and have no lock.
package core

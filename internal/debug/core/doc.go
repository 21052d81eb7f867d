// Package core drives the debug interface of the RISC-V processors of a Tensix tile. NCRISC has no
// interface: its pc can be sampled (Core.Sample), and on Blackhole its local RAM can be read. Only
// one process may debug a tile at a time.
//
// Sources of registers and bits: tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/DebugInterface.md and WormholeB0/TensixTile/DebugDaisychain.md;
// for Blackhole and for undocumented behaviour, tt-exalens ttexalens/hardware/baby_risc_debug.py,
// blackhole/baby_risc_debug.py and wormhole/baby_risc_debug.py.
package core

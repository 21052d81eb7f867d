// Package chip describes Wormhole B0 and Blackhole as data and pure functions: tile grids,
// coordinates in the spaces that software and hardware use, harvesting, DRAM banks, register and
// memory maps, and the encodings of coordinates and of TLB windows. It performs no I/O.
//
// # Coordinates
//
//   - A logical coordinate ([Core]) counts the Tensix tiles that work, from (0,0), without gaps. It
//     is what programs are written in.
//   - A virtual coordinate ([XY]) is what software puts into a NoC request or a TLB window, the
//     same on both NoCs ([Chip.Virtual]). It has no gaps for harvested rows and columns either.
//   - A physical, or raw, coordinate ([XY]) is a tile's place on NoC 0 ([Chip.Physical],
//     [Chip.Translate]). On NoC 1 it is mirrored in both axes ([Arch.Mirror]).
package chip

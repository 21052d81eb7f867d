// Package chip describes Wormhole B0 and Blackhole as data and pure functions: tile grids,
// coordinates in the spaces that software and hardware use, harvesting, DRAM banks, register and
// memory maps, and the encodings of coordinates and of TLB windows. It performs no I/O.
//
// # Coordinates
//
// Three spaces matter, and three types keep them apart as far as the hardware allows:
//
//   - A logical coordinate ([Core]) counts the Tensix tiles that work, from (0,0), without gaps. It
//     is what programs are written in.
//   - A virtual coordinate ([XY]) is what software puts into a NoC request or a TLB window while
//     translation is on, as every supported firmware leaves it. [Chip.Virtual] and [Chip.Logical]
//     convert. Harvested rows and columns have no gap in it either, so a rectangle of logical cores
//     is a rectangle of virtual coordinates.
//   - A physical, or raw, coordinate ([XY]) is a tile's place on NoC 0. It names silicon;
//     [Chip.Physical] and [Chip.Translate] give it.
//
// NoC 1 runs the other way: the raw coordinate of a tile on NoC 1 is its raw NoC 0 coordinate
// mirrored in both axes ([Arch.Mirror]). Virtual coordinates are the same on both.
package chip

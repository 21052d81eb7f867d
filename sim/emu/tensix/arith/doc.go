// Package arith is the arithmetic of a Tensix engine: what its matrix unit, packers, unpackers and
// vector unit compute, for each number format, fidelity and chip, bit for bit. It has no state, so
// a test of a kernel can state what the chip will answer without running one.
//
// All but the packer's accumulation in L1, plain IEEE addition, is integer arithmetic over bit
// patterns. The model is the vendor's simulator (ttsim 1.10), then tt-isa-documentation. Stochastic
// rounding and DOTPV aren't modelled.
//
// # Where numbers live
//
//   - In L1 a datum has 32, 16, 8, 4 or 2 bits ([Format]). Block formats share one exponent byte
//     between 16 data.
//   - A datum in SrcA or SrcB ([Row]) has 19 bits, a sign, 8 bits of exponent and 10 of mantissa,
//     in bits 31 to 13 of a uint32: a bf16 or tf32 datum is its fp32 pattern. Formats of 5 exponent
//     bits leave bits 30 to 28 zero, and don't change the bias.
//   - A datum in Dst ([DstRow]) has 16 bits, or 32 in two rows. Its exponent stands in the low bits
//     of the upper half, below the mantissa: [EncodeDst32] and its siblings shuffle.
//
// # What the matrix unit does
//
// A multiplier takes 5 bits of SrcA's mantissa and 7 bits of SrcB's, which the fidelity phase
// selects. LoFi runs phase 0, HiFi2 phases 0 and 1, HiFi3 phases 0 to 2 and HiFi4 all four, and Dst
// accumulates. [Math] describes one pass.
//
// [Math.MulRows] adds 16 products to each datum of a row of Dst: two groups of eight are aligned to
// the largest exponent of their group, rounded, and added; the two sums and the datum of Dst are
// then aligned to the largest exponent of the three, rounded, added and normalised. Results
// therefore depend on the order of K in a way that no float32 reference reproduces.
//
// # Whole tiles
//
// [Unpack.Tile], [Math.MatmulTile], [Math.AddTile] and their like, and [Pack.Tile] compute tiles of
// 32 by 32 data.
//
// # Speed
//
// With AVX2 a product of two bf16 tiles at full fidelity takes some 25 µs, with unpacking and
// packing, a sum 3 µs. The tag purego leaves the assembly out.
package arith

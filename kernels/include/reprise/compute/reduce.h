// Sums and maxima over the rows, the columns or all data of a tile. The second operand is a tile with a factor in row 0 of each
// face, and zeros elsewhere; maxima want 1.
//
// The matrix unit sums over rows of SrcA. Sums along rows of the tile are a product with the transposed factors, whose first column
// is all that they have; maxima take the faces transposed, and turn their row of results to a column by way of SrcB.
#pragma once

#include "reprise/compute/math.h"

namespace reprise {

enum pooling { pool_sum, pool_max };
enum dimension { over_columns, over_rows, over_both };  // what is left: a column, a row, one datum

namespace unpack {
template <pooling pool, dimension over>
FORCE_INLINE void reduce_init(uint32_t cb, uint32_t factors) {
    if constexpr (pool == pool_sum && over == over_columns) {
        init(factors, cb, true);
    } else {
        init(cb, factors, over == over_columns);
    }
}
template <pooling pool, dimension over>
FORCE_INLINE void reduce(uint32_t cb, uint32_t factors, uint32_t tile, uint32_t factor) {
    if constexpr (pool == pool_sum && over == over_columns) {
        tiles(factors, factor, cb, tile);
    } else {
        tiles(cb, tile, factors, factor);
    }
}
}  // namespace unpack

namespace math {

// Row 0 of four in Dst becomes the first column of the face. It also stays a row, so that more tiles can be added.
#define RP_ROW_TO_COLUMN(dst)                        \
    RP_TTI(RP_OP_MOVD2B(dst, 0, 1, 16, 0));          \
    RP_TTI(RP_OP_TRNSPSRCB);                         \
    RP_TTI(RP_OP_MOVD2B(dst, 0, 1, 16, 0));          \
    RP_TTI(RP_OP_MOVB2D(dst, 4, 1, 16, 0));          \
    RP_TTI(RP_OP_MOVB2D((dst) + 4, 4, 1, 20, 0));    \
    RP_TTI(RP_OP_MOVB2D((dst) + 8, 4, 1, 24, 0));    \
    RP_TTI(RP_OP_MOVB2D((dst) + 12, 4, 1, 28, 0))
#define RP_MAXIMUM(dst) RP_TTI(RP_OP_GMPOOL(dst, 0, 0, 1, 0))
#define RP_SUM(dst, mode) RP_TTI(RP_OP_GAPOOL(dst, 0, mode, 1, 0))

// The row of Dst that has sums or maxima of columns on their way to one datum. It is zero before and afterwards.
constexpr uint32_t reduce_row = 4;

template <pooling pool, dimension over>
FORCE_INLINE void reduce_init(uint32_t cb, uint32_t factors) {
    constexpr bool moves = over == over_both || (over == over_columns && pool == pool_max);
    const uint32_t format = source_format(cb_format(cb)), factor = source_format(cb_format(factors));
    if constexpr (pool == pool_sum && over == over_columns) {
        formats(factor, format);
        RP_ADDRESS_MODE(0, RP_STEP(0, 8), 0);
        RP_ADDRESS_MODE(1, RP_STEP(0, 24), 0);
        RP_ADDRESS_MODE(2, RP_STEP(32, 40), 0);
        RP_ADDRESS_MODE(3, RP_STEP(32, 8), RP_MODE_FIDELITY(1));
        record<8>();
        RP_TTI(RP_OP_MVMUL(0, 0, 0, 0));
        RP_TTI(RP_OP_MVMUL(8, 1, 0, 0));
        RP_TTI(RP_OP_MVMUL(32, 0, 0, 0));
        RP_TTI(RP_OP_MVMUL(40, 2, 0, 0));
        RP_TTI(RP_OP_MVMUL(0, 0, 0, 0));
        RP_TTI(RP_OP_MVMUL(8, 1, 0, 0));
        RP_TTI(RP_OP_MVMUL(32, 0, 0, 0));
        RP_TTI(RP_OP_MVMUL(40, 3, 0, 0));
    } else {
        // Moves go by the format of SrcA: with a wide Dst tf32, of which there are 19 bits.
        formats(moves && wide_dst ? (uint32_t)RP_TF32 : format, moves && wide_dst ? (uint32_t)RP_TF32 : factor);
        RP_ADDRESS_MODE(0, RP_STEP(16, 0), 0);
        RP_ADDRESS_MODE(1, 0, 0);
        RP_ADDRESS_MODE(2, 0, RP_MODE_FIDELITY(1));
        RP_ADDRESS_MODE(3, RP_STEP(16, 0), RP_MODE_FIDELITY(1));
        if constexpr (over == over_columns) {
            record<18>();
            RP_MAXIMUM(0);
            RP_MAXIMUM(0);
            RP_ROW_TO_COLUMN(0);
            RP_MAXIMUM(32);
            RP_MAXIMUM(32);
            RP_ROW_TO_COLUMN(32);
        } else {
            constexpr uint32_t left = over == over_both ? reduce_row : 0, right = over == over_both ? reduce_row : 16;
            record<4>();
            if constexpr (pool == pool_max) {
                RP_MAXIMUM(left);
                RP_MAXIMUM(right);
                RP_MAXIMUM(left);
                RP_MAXIMUM(right);
            } else {
                RP_SUM(left, 0);
                RP_SUM(right, 0);
                RP_SUM(left, 0);
                RP_SUM(right, 3);
            }
        }
    }
    finish(0, 0);
}

template <pooling pool, dimension over>
FORCE_INLINE void reduce(uint32_t dst) {
    constexpr uint32_t rounds = pool == pool_max ? 1 : phases;
    constexpr uint32_t length = over != over_columns ? 4 : pool == pool_max ? 18 : 8;
    tile(dst);
    for (uint32_t p = 0; p < rounds; p++) {
        replay<length>();
    }
    if constexpr (over == over_both) {
        RP_TTI(RP_OP_SETRWC(RP_RWC_ALL, 0, 0, 0, 0, 0));
        RP_TTI(RP_OP_MOVD2B(reduce_row, 0, 1, 16, 0));
        RP_TTI(RP_OP_TRNSPSRCB);
        RP_TTI(RP_OP_MOVB2A(16, 2, 1, 0));
        RP_TTI(RP_OP_MOVB2A(20, 2, 1, 4));
        RP_TTI(RP_OP_MOVB2A(24, 2, 1, 8));
        RP_TTI(RP_OP_MOVB2A(28, 2, 1, 12));
        for (uint32_t p = 0; p < rounds; p++) {
            if constexpr (pool == pool_max) {
                RP_TTI(RP_OP_GMPOOL(0, 0, 1, 1, 0));
            } else {
                RP_SUM(0, 2);
            }
        }
        RP_TTI(RP_OP_ZEROACC(reduce_row, 1, RP_CLEAR_ROW, 0, 0));
    }
    finish(0, RP_SRCA | RP_SRCB);
}
#undef RP_MAXIMUM
#undef RP_SUM
#undef RP_ROW_TO_COLUMN

}  // namespace math

namespace pack {
// Packs only what a reduction leaves, and zeros beside it: words of row sets and edge masks.
FORCE_INLINE void keep(uint32_t rows, uint32_t mask0, uint32_t mask1) {
    rp_tensix_sync();
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_ROW_SETS(0)), rows);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_EDGE_MASK(0)), mask0);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_EDGE_MASK(1)), mask1);
    RP_STALLWAIT(RP_STALL_PACK, RP_WAIT_STORES);
}
template <dimension over>
FORCE_INLINE void reduce_init() {
    if constexpr (over == over_columns) {
        keep(0, 1, 0);
    } else {
        keep(1, 0, over == over_rows ? 0xFFFF : 1);
    }
}
FORCE_INLINE void reduce_end() { keep(0, 0xFFFF, 0); }
}  // namespace pack
}  // namespace reprise

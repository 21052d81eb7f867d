// Sums and maxima of the rows of tiles, and what is computed with them, by the vector unit in fp32. Dst has 32 bits; a half of it
// has room for four tiles, which have these uses.
#pragma once

#include "../blocks.h"
#include "api/compute/eltwise_unary/sfpu_split_includes.h"

// Tiles of Dst: of the tensor, of another operand, with what pass 1 has left for each row, with what is summed up.
constexpr uint32_t kTile = 0, kOther = 1, kFirst = 2, kSecond = 3;
// Circular buffers of fp32 tiles with one number for each row: what passes 1 and 2 leave.
constexpr uint32_t kFirstRows = 4, kSecondRows = 5;

#if defined(TRISC_MATH)
namespace rows {

using namespace reprise::sfpu;
constexpr uint32_t tile_rows = reprise::tile_rows;

template <uint32_t tile>
FORCE_INLINE void take(uint32_t l) { RP_TTI(RP_OP_SFPLOAD(tile * tile_rows, still, RP_SFPU_FP32, l)); }
template <uint32_t tile>
FORCE_INLINE void leave(uint32_t l) { RP_TTI(RP_OP_SFPSTORE(tile * tile_rows, next, RP_SFPU_FP32, l)); }

// Executes f for 32 data of each tile at a time. f ends with leave.
template <typename F>
FORCE_INLINE void each(F f) {
    begin(0);
    for (uint32_t i = 0; i < 32; i++) {
        f();
    }
    end();
}
// The same with a number in L7.
template <typename F>
FORCE_INLINE void each_with(uint32_t bits, F f) {
    begin(0);
    loadi(l7, bits);
    for (uint32_t i = 0; i < 32; i++) {
        f();
    }
    end();
}

// d = c with each row of lanes rotated by one.
FORCE_INLINE void rotate(uint32_t d, uint32_t c) {
#if defined(REPRISE_BLACKHOLE)
    RP_TTI(RP_OP_SFPNOP);  // it doesn't wait for a sum in c
#endif
    RP_TTI(RP_OP_SFPSHFT2(3, d, c, 0));
    RP_SFPU_SETTLE();
}

// Four rows of a tile of Dst from a row on: even and odd columns of the left face, and of the right face. D goes on by four rows.
template <uint32_t row, typename F, typename G>
FORCE_INLINE void reduce_four(F combine, G finish) {
    RP_TTI(RP_OP_SFPLOAD(row, still, RP_SFPU_FP32, l0));
    RP_TTI(RP_OP_SFPLOAD(row + 2, still, RP_SFPU_FP32, l1));
    combine();
    RP_TTI(RP_OP_SFPLOAD(row + 16, still, RP_SFPU_FP32, l1));
    combine();
    RP_TTI(RP_OP_SFPLOAD(row + 18, still, RP_SFPU_FP32, l1));
    combine();
    rotate(l1, l0);
    combine();
    rotate(l1, l0);
    rotate(l1, l1);
    combine();
    rotate(l1, l0);
    rotate(l1, l1);
    rotate(l1, l1);
    rotate(l1, l1);
    combine();
    finish();
    RP_TTI(RP_OP_SFPSTORE(row, still, RP_SFPU_FP32, l0));
    RP_TTI(RP_OP_SFPSTORE(row + 16, still, RP_SFPU_FP32, l0));
    RP_TTI(RP_OP_SFPSTORE(row + 2, next, RP_SFPU_FP32, l0));
    RP_TTI(RP_OP_SFPSTORE(row + 16, next, RP_SFPU_FP32, l0));
}
// Combines each row of a tile to one number, which finish may change, and stores that in all of the row. combine computes L0 from L0
// and L1, finish L0 from L0; L6 and L7 are numbers for it. The order of combining is different in each column.
template <uint32_t tile, typename F, typename G>
FORCE_INLINE void reduce(uint32_t six, uint32_t seven, F combine, G finish) {
    begin(0);
    loadi(l6, six);
    loadi(l7, seven);
    for (uint32_t i = 0; i < 4; i++) {
        reduce_four<tile * tile_rows>(combine, finish);
    }
    for (uint32_t i = 0; i < 4; i++) {
        reduce_four<tile * tile_rows + 16>(combine, finish);  // D is at 16
    }
    end();
}

// Stores a number in the columns of a tile from one on.
template <uint32_t tile>
FORCE_INLINE void pad(uint32_t column, uint32_t bits) {
    begin(tile);
    loadi(l7, bits);
    loadi(l1, 0xF);
    RP_TTI(RP_OP_SFPAND(0, l1, RP_LREG_LANE, 0));  // twice the column among eight: even columns of a face
    for (uint32_t face = 0; face < 4; face++) {
        for (uint32_t i = 0; i < 8; i++) {
            const uint32_t first = (face & 1) * 16 + (i & 1);
            mov(l2, l1);
            reprise::tt(RP_OP_SFPIADD(5, l2, l2, 0) | ((first - column) & 0xFFFu) << 12);
            where_not_negative(l2);
            store_exact(l7);
            all();
        }
    }
    end();
}

template <uint32_t tile>
FORCE_INLINE void clear() {
    each([] { leave<tile>(zero); });
}

}  // namespace rows
#endif

#define MEMBER inline __attribute__((always_inline))

// Operands of rows of tiles. Resident ones have all tiles of a row in their circular buffer, the others come anew for each pass.
struct Rows {
    uint32_t wide;    // tiles in a row
    uint32_t column;  // of the last tile, from which on it is padding
    bool resident;

    MEMBER bool last(uint32_t k) const { return k == wide - 1 && column < 32; }
    // take copies tile k of an operand to a tile of Dst.
    template <uint32_t cb>
    MEMBER void take(uint32_t k, uint32_t dst) const {
        cb_wait_front(cb, resident ? k + 1 : 1);
        copy_init(cb);
        copy_tile(cb, resident ? k : 0, dst);
        if (!resident) {
            cb_pop_front(cb, 1);
        }
    }
    // done ends the use of a row.
    MEMBER void done(uint32_t cb) const {
        if (resident) {
            cb_pop_front(cb, wide);
        }
    }
};

// take_rows copies what a pass has left to a tile of Dst.
template <uint32_t cb>
ALWI void take_rows(uint32_t dst) {
    cb_wait_front(cb, 1);
    copy_init(cb);
    copy_tile(cb, 0, dst);
}

// pack passes a tile of Dst on, and frees the half.
ALWI void pack(uint32_t dst, uint32_t cb) {
    tile_regs_commit();
    cb_reserve_back(cb, 1);
    tile_regs_wait();
    pack_tile(dst, cb);
    tile_regs_release();
    cb_push_back(cb, 1);
}

// Scaled dot-product attention, a row of tiles of queries at a time; the reader is ../attention_reader.cpp. Scores stay in L1 in
// fp32. Probabilities are rounded to the format of the operands before they are summed and multiplied by the values.
//
// Unique arguments: 0 first row of tiles, 1 number of rows of tiles, 2 tiles in a row of queries and keys, 3 tiles in a row of values,
// 4 rows of queries, 5 rows of their tiles, 6 number of keys, 7 whether queries attend only to keys up to their position, 8 whether
// there is a mask, 9 factor of scores, as the bits of an fp32. Common arguments: 0 position of the first query.

#include "../attention.h"
#include "api/compute/eltwise_binary_sfpu.h"
#include "api/compute/eltwise_unary/binop_with_scalar.h"
#include "api/compute/eltwise_unary/exp.h"
#include "api/compute/eltwise_unary/recip.h"
#include "api/compute/matmul.h"
#include "api/compute/reduce.h"
#include "api/compute/tile_move_copy.h"

// leave packs the first tiles of Dst.
ALWI void leave(uint32_t cb, uint32_t tiles) {
    tile_regs_commit();
    cb_reserve_back(cb, tiles);
    tile_regs_wait();
    for (uint32_t i = 0; i < tiles; i++) {
        pack_tile(i, cb);
    }
    tile_regs_release();
    cb_push_back(cb, tiles);
}

// skip passes on pages that nothing was packed to: the next ones begin at the beginning of the buffer again, where tiles have one
// after another room.
ALWI void skip(uint32_t cb, uint32_t pages) {
    if (pages != 0) {
        cb_reserve_back(cb, pages);
        cb_push_back(cb, pages);
    }
}

// scores = queries x keys, transposed, times the factor, plus the mask.
ALWI void score(const Shape& s, uint32_t r, uint32_t position, uint32_t tiles, uint32_t inner, uint32_t factor) {
    pack_reconfig_data_format(kScores);
    cb_wait_front(kQueries, inner);
    bool ready = false;
    for (uint32_t j = 0; j < tiles; j++) {
        if (!ready) {
            mm_init_short(kQueries, kKeys, 1);
            ready = true;
        }
        tile_regs_acquire();
        cb_wait_front(kKeys, inner);
        for (uint32_t k = 0; k < inner; k++) {
            matmul_tiles(kQueries, kKeys, k, k, 0);
        }
        cb_pop_front(kKeys, inner);
        mul_unary_tile(0, factor);
        if (s.has_mask(r, position, j)) {
            copy_tile_to_dst_init_short(kMask);
            cb_wait_front(kMask, 1);
            copy_tile(kMask, 0, 1);
            cb_pop_front(kMask, 1);
            add_binary_tile(0, 1, 0);
            ready = false;
        }
        leave(kScores, 1);
    }
    cb_pop_front(kQueries, inner);
    skip(kScores, s.room() - tiles);
}

// greatest puts the greatest score of each row into all columns of a tile.
ALWI void greatest(uint32_t tiles) {
    reduce_init<MAX, REDUCE_ROW>(kScores, kConstants, kGreatest);
    tile_regs_acquire();
    cb_wait_front(kScores, tiles);
    for (uint32_t j = 0; j < tiles; j++) {
        reduce_tile<MAX, REDUCE_ROW>(kScores, kConstants, j, kFirstRows, 0);
    }
    leave(kGreatest, 1);
    reduce_uninit();
    mm_init_short(kGreatest, kConstants);
    tile_regs_acquire();
    cb_wait_front(kGreatest, 1);
    matmul_tiles(kGreatest, kConstants, 0, kFirstRows, 0);
    cb_pop_front(kGreatest, 1);
    leave(kGreatestAll, 1);
}

// probabilities = exp(scores - greatest), which factors then makes 1 together.
ALWI void exponentiate(uint32_t tiles, uint32_t room) {
    pack_reconfig_data_format(kProbabilities);
    copy_tile_to_dst_init_short(kScores);
    cb_wait_front(kGreatestAll, 1);
    for (uint32_t j = 0; j < tiles; j++) {
        tile_regs_acquire();
        copy_tile(kScores, j, 0);
        copy_tile(kGreatestAll, 0, 1);
        sub_binary_tile(0, 1, 0);
        exp_tile(0);
        leave(kProbabilities, 1);
    }
    cb_pop_front(kGreatestAll, 1);
    cb_pop_front(kScores, room);
    skip(kProbabilities, room - tiles);
}

ALWI void factors(uint32_t tiles) {
    pack_reconfig_data_format(kFactors);
    mm_init_short(kProbabilities, kConstants);
    tile_regs_acquire();
    cb_wait_front(kProbabilities, tiles);
    for (uint32_t j = 0; j < tiles; j++) {
        matmul_tiles(kProbabilities, kConstants, j, kOnes, 0);
    }
    recip_tile(0);
    leave(kFactors, 1);
}

// attend leaves the sums of values, times probabilities and factors.
ALWI void attend(uint32_t tiles, uint32_t room, uint32_t wide) {
    cb_wait_front(kFactors, 1);
    for (uint32_t w = 0; w < wide; w += kColumns) {
        const uint32_t count = wide - w < kColumns ? wide - w : kColumns;
        pack_reconfig_data_format(kSums);
        mm_init_short(kProbabilities, kValues);
        tile_regs_acquire();
        for (uint32_t j = 0; j < tiles; j++) {
            cb_wait_front(kValues, kColumns);
            matmul_block(kProbabilities, kValues, j, 0, 0, 0, count, 1, 1);
            cb_pop_front(kValues, kColumns);
        }
        leave(kSums, count);
        skip(kSums, kColumns - count);
        pack_reconfig_data_format(kResult);
        copy_tile_to_dst_init_short(kSums);
        cb_wait_front(kSums, count);
        for (uint32_t i = 0; i < count; i++) {
            tile_regs_acquire();
            copy_tile(kSums, i, 0);
            copy_tile(kFactors, 0, 1);
            mul_binary_tile(0, 1, 0);
            leave(kResult, 1);
        }
        cb_pop_front(kSums, kColumns);
    }
    cb_pop_front(kFactors, 1);
    cb_pop_front(kProbabilities, room);
}

void kernel_main() {
    const uint32_t first = get_arg_val<uint32_t>(0), end = first + get_arg_val<uint32_t>(1);
    const uint32_t inner = get_arg_val<uint32_t>(2), wide = get_arg_val<uint32_t>(3), position = get_common_arg_val<uint32_t>(0);
    const Shape s = {get_arg_val<uint32_t>(4), get_arg_val<uint32_t>(5), get_arg_val<uint32_t>(6), get_arg_val<uint32_t>(7) != 0,
                     get_arg_val<uint32_t>(8) != 0};
    const uint32_t factor = get_arg_val<uint32_t>(9);
    compute_kernel_hw_startup(kQueries, kKeys, kResult);
    init_sfpu(kQueries, kResult);
    cb_wait_front(kConstants, 2);
    for (uint32_t row = first; row != end; row++) {
        const uint32_t r = row % s.high, tiles = s.tiles(r, position);
        score(s, r, position, tiles, inner, factor);
        greatest(tiles);
        exponentiate(tiles, s.room());
        factors(tiles);
        attend(tiles, s.room(), wide);
    }
}

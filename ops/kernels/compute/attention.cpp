// Scaled dot-product attention, a row of tiles of queries at a time, against one chunk of keys after the other; the reader is
// ../attention_reader.cpp. Scores stay in L1 in fp32. Probabilities are rounded to the format of the operands before they are summed
// and multiplied by the values.
//
// They are relative to the greatest score so far. Where a later chunk has a greater one, the total and the sums of values so far are
// multiplied by a factor, e to the power of the difference.
//
// Unique arguments: 0 first row of tiles, 1 number of rows of tiles, 2 tiles in a row of queries and keys, 3 tiles in a row of values,
// 4 rows of queries, 5 rows of their tiles, 6 number of keys, 7 whether queries attend only to keys up to their position, 8 whether
// there is a mask, 9 factor of scores, as the bits of an fp32. Common arguments: 0 position of the first query.

#include "../attention.h"
#include "api/compute/binary_max_min.h"
#include "api/compute/eltwise_binary_sfpu.h"
#include "api/compute/eltwise_unary/binop_with_scalar.h"
#include "api/compute/eltwise_unary/exp.h"
#include "api/compute/eltwise_unary/recip.h"
#include "api/compute/eltwise_unary/relu.h"
#include "api/compute/matmul.h"
#include "api/compute/reduce.h"
#include "api/compute/tile_move_copy.h"

// What masks have for minus infinity, and no masked score is below, so that differences are numbers.
constexpr uint32_t kLowest = 0xFF7F0000;

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
ALWI void score(const Shape& s, uint32_t r, uint32_t position, uint32_t from, uint32_t tiles, uint32_t inner, uint32_t factor) {
    pack_reconfig_data_format(kScores);
    bool ready = false;
    for (uint32_t j = from; j < from + tiles; j++) {
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
            relu_min_tile(0, kLowest);
            ready = false;
        }
        leave(kScores, 1);
    }
    skip(kScores, kChunk - tiles);
}

// greatest puts the greatest score of each row so far into all columns of a tile, and leaves the factor for what was summed before.
ALWI void greatest(uint32_t tiles, bool first) {
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
    uint32_t most = 0;
    if (!first) {
        copy_tile_to_dst_init_short(kGreatestAll);
        copy_tile(kGreatestAll, 0, 1);
        cb_pop_front(kGreatestAll, 1);
        binary_max_tile(0, 1, 2);
        sub_binary_tile(1, 2, 1);
        exp_tile(1);
        most = 2;
    }
    tile_regs_commit();
    cb_reserve_back(kGreatestAll, 1);
    cb_reserve_back(kFactor, 1);
    tile_regs_wait();
    pack_tile(most, kGreatestAll);
    if (!first) {
        pack_tile(1, kFactor);
    }
    tile_regs_release();
    cb_push_back(kGreatestAll, 1);
    cb_wait_front(kGreatestAll, 1);
    if (!first) {
        cb_push_back(kFactor, 1);
        cb_wait_front(kFactor, 1);
    }
}

// probabilities = exp(scores - greatest).
ALWI void exponentiate(uint32_t tiles) {
    pack_reconfig_data_format(kProbabilities);
    copy_tile_to_dst_init_short(kScores);
    for (uint32_t j = 0; j < tiles; j++) {
        tile_regs_acquire();
        copy_tile(kScores, j, 0);
        copy_tile(kGreatestAll, 0, 1);
        sub_binary_tile(0, 1, 0);
        exp_tile(0);
        leave(kProbabilities, 1);
    }
    cb_pop_front(kScores, kChunk);
    skip(kProbabilities, kChunk - tiles);
    cb_wait_front(kProbabilities, tiles);
}

// add_before adds to tile 0 of Dst a tile of what was summed before, times the factor.
ALWI void add_before(uint32_t cb, uint32_t tile) {
    copy_tile(cb, tile, 1);
    copy_tile(kFactor, 0, 2);
    mul_binary_tile(1, 2, 1);
    add_binary_tile(0, 1, 0);
}

// total sums probabilities.
ALWI void total(uint32_t tiles, bool first) {
    pack_reconfig_data_format(kTotal);
    mm_init_short(kProbabilities, kConstants);
    tile_regs_acquire();
    for (uint32_t j = 0; j < tiles; j++) {
        matmul_tiles(kProbabilities, kConstants, j, kOnes, 0);
    }
    if (!first) {
        copy_tile_to_dst_init_short(kTotal);
        cb_wait_front(kTotal, 1);
        add_before(kTotal, 0);
        cb_pop_front(kTotal, 1);
    }
    leave(kTotal, 1);
}

// sum sums values times probabilities.
ALWI void sum(uint32_t tiles, uint32_t wide, bool first) {
    if (!first) {
        cb_wait_front(kSums, wide);
    }
    for (uint32_t w = 0; w < wide; w += kColumns) {
        const uint32_t count = wide - w < kColumns ? wide - w : kColumns;
        mm_init_short(kProbabilities, kValues);
        tile_regs_acquire();
        for (uint32_t j = 0; j < tiles; j++) {
            cb_wait_front(kValues, kColumns);
            matmul_block(kProbabilities, kValues, j, 0, 0, 0, count, 1, 1);
            cb_pop_front(kValues, kColumns);
        }
        if (first) {
            leave(kSums, count);
            continue;
        }
        leave(kPart, count);
        skip(kPart, kColumns - count);
        copy_tile_to_dst_init_short(kPart);
        cb_wait_front(kPart, kColumns);
        for (uint32_t i = 0; i < count; i++) {
            tile_regs_acquire();
            copy_tile(kPart, i, 0);
            add_before(kSums, w + i);
            leave(kSums, 1);
        }
        cb_pop_front(kPart, kColumns);
    }
    cb_pop_front(kProbabilities, kChunk);
    if (!first) {
        cb_pop_front(kSums, wide);
        cb_pop_front(kFactor, 1);
    }
}

// finish leaves the sums of values divided by the total.
ALWI void finish(uint32_t wide) {
    cb_pop_front(kGreatestAll, 1);
    copy_tile_to_dst_init_short(kTotal);
    cb_wait_front(kTotal, 1);
    tile_regs_acquire();
    copy_tile(kTotal, 0, 0);
    recip_tile(0);
    cb_pop_front(kTotal, 1);
    leave(kFactor, 1);
    pack_reconfig_data_format(kResult);
    cb_wait_front(kFactor, 1);
    cb_wait_front(kSums, wide);
    for (uint32_t i = 0; i < wide; i++) {
        tile_regs_acquire();
        copy_tile(kSums, i, 0);
        copy_tile(kFactor, 0, 1);
        mul_binary_tile(0, 1, 0);
        leave(kResult, 1);
    }
    cb_pop_front(kFactor, 1);
    cb_pop_front(kSums, wide);
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
        cb_wait_front(kQueries, inner);
        for (uint32_t from = 0; from < tiles; from += kChunk) {
            const uint32_t count = tiles - from < kChunk ? tiles - from : kChunk;
            score(s, r, position, from, count, inner, factor);
            greatest(count, from == 0);
            exponentiate(count);
            total(count, from == 0);
            sum(count, wide, from == 0);
        }
        cb_pop_front(kQueries, inner);
        finish(wide);
    }
}

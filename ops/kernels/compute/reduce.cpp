// Sums and maxima of rows or columns of tiles; the reader is ../reduce_reader.cpp.
//
// Arguments: 0 first tile of the result, 1 number of tiles, 2 tiles of the tensor for each, 3 whether maxima are computed, otherwise
// sums, 4 whether rows are reduced, otherwise columns.

#include "../blocks.h"
#include "api/compute/reduce.h"

template <PoolType pool, ReduceDim over>
ALWI void reduce(uint32_t tiles, uint32_t each) {
    reduce_init<pool, over>(kLeft, kConstant, kOut);
    cb_wait_front(kConstant, 1);
    for (; tiles != 0; tiles--) {
        tile_regs_acquire();
        for (uint32_t k = 0; k < each; k++) {
            cb_wait_front(kLeft, 1);
            reduce_tile<pool, over>(kLeft, kConstant, 0, 0, 0);
            cb_pop_front(kLeft, 1);
        }
        tile_regs_commit();
        cb_reserve_back(kOut, 1);
        tile_regs_wait();
        pack_tile(0, kOut);
        tile_regs_release();
        cb_push_back(kOut, 1);
    }
    reduce_uninit();
}

void kernel_main() {
    const uint32_t tiles = get_arg_val<uint32_t>(1), each = get_arg_val<uint32_t>(2);
    const bool maxima = get_arg_val<uint32_t>(3) != 0, rows = get_arg_val<uint32_t>(4) != 0;
    compute_kernel_hw_startup(kLeft, kConstant, kOut);
    if (maxima && rows) {
        reduce<MAX, REDUCE_COL>(tiles, each);
    } else if (maxima) {
        reduce<MAX, REDUCE_ROW>(tiles, each);
    } else if (rows) {
        reduce<SUM, REDUCE_COL>(tiles, each);
    } else {
        reduce<SUM, REDUCE_ROW>(tiles, each);
    }
}

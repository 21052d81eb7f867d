// Rotary embeddings: x cos - y sin in the left half of each row of tiles, x cos + y sin in the right half, where y is the element of
// the other half. The reader is ../rotary_reader.cpp. Products of bf16 are of the matrix unit, those of fp32 of the vector unit.
//
// Arguments: 0 first tile of the result, 1 number of tiles, 2 tiles in a row.

#include "../blocks.h"
#include "api/compute/eltwise_binary.h"
#include "api/compute/eltwise_binary_sfpu.h"

void kernel_main() {
    const uint32_t first = get_arg_val<uint32_t>(0), end = first + get_arg_val<uint32_t>(1), wide = get_arg_val<uint32_t>(2);
    binary_op_init_common(kLeft, kRight, kOut);
    if constexpr (reprise::to_dst(kLeft)) {
        copy_tile_to_dst_init_short(kLeft);
    } else {
        mul_tiles_init(kLeft, kRight);
    }
    for (uint32_t page = first; page != end; page++) {
        cb_wait_front(kLeft, 2);
        cb_wait_front(kRight, 2);
        tile_regs_acquire();
        if constexpr (reprise::to_dst(kLeft)) {
            copy_tile(kLeft, 0, 0);
            copy_tile(kRight, 0, 1);
            mul_binary_tile(0, 1, 0);
            copy_tile(kLeft, 1, 1);
            copy_tile(kRight, 1, 2);
            mul_binary_tile(1, 2, 1);
        } else {
            mul_tiles(kLeft, kRight, 0, 0, 0);
            mul_tiles(kLeft, kRight, 1, 1, 1);
        }
        if (page % wide < wide / 2) {
            sub_binary_tile(0, 1, 0);
        } else {
            add_binary_tile(0, 1, 0);
        }
        tile_regs_commit();
        cb_pop_front(kLeft, 2);
        cb_pop_front(kRight, 2);
        cb_reserve_back(kOut, 1);
        tile_regs_wait();
        pack_tile(0, kOut);
        tile_regs_release();
        cb_push_back(kOut, 1);
    }
}

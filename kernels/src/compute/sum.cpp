// Sums of tiles for ../exchange.cpp: of bf16 by the matrix unit, of fp32 by the vector unit, which has all bits of them. Dst has 32
// bits, and sums are rounded once, by packers.
//
// Circular buffers: 0 sums, 1 and 2 what is added. Argument 0: number of tiles.
#include "api/compute/eltwise_binary.h"
#include "api/compute/eltwise_binary_sfpu.h"

constexpr uint32_t kSum = 0, kLeft = 1, kRight = 2;

void kernel_main() {
    constexpr bool vector = reprise::to_dst(kLeft);
    binary_op_init_common(kLeft, kRight, kSum);
    if constexpr (vector) {
        copy_tile_to_dst_init_short(kLeft);
    } else {
        add_tiles_init(kLeft, kRight);
    }
    for (uint32_t tiles = get_arg_val<uint32_t>(0); tiles != 0; tiles--) {
        cb_wait_front(kLeft, 1);
        cb_wait_front(kRight, 1);
        tile_regs_acquire();
        if constexpr (vector) {
            copy_tile(kLeft, 0, 0);
            copy_tile(kRight, 0, 1);
            add_binary_tile(0, 1, 0);
        } else {
            add_tiles(kLeft, kRight, 0, 0, 0);
        }
        tile_regs_commit();
        cb_pop_front(kLeft, 1);
        cb_pop_front(kRight, 1);
        cb_reserve_back(kSum, 1);
        tile_regs_wait();
        pack_tile(0, kSum);
        tile_regs_release();
        cb_push_back(kSum, 1);
    }
}

// Sums of tiles, written as tt-metal's example of elementwise operations is: the same headers and calls.
#include <cstdint>

#include "api/compute/common.h"
#include "api/compute/compute_kernel_api.h"
#include "api/compute/eltwise_binary.h"
#include "api/compute/tile_move_copy.h"

void kernel_main() {
    uint32_t tiles = get_arg_val<uint32_t>(0);
    constexpr auto a = tt::CBIndex::c_0;
    constexpr auto b = tt::CBIndex::c_1;
    constexpr auto sum = tt::CBIndex::c_16;
    constexpr uint32_t dst = 0;
    binary_op_init_common(a, b, sum);
    add_tiles_init(a, b);
    for (uint32_t i = 0; i < tiles; i++) {
        cb_wait_front(a, 1);
        cb_wait_front(b, 1);
        tile_regs_acquire();
        add_tiles(a, b, 0, 0, dst);
        tile_regs_commit();
        tile_regs_wait();
        cb_reserve_back(sum, 1);
        pack_tile(dst, sum);
        cb_push_back(sum, 1);
        cb_pop_front(a, 1);
        cb_pop_front(b, 1);
        tile_regs_release();
    }
}

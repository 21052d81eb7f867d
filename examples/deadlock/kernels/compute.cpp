// Adds a page of values and a page of weights, and leaves the sums in a third buffer. Argument: 0 number of pages.
#include "api/compute/eltwise_binary.h"

constexpr uint32_t values = 0, weights = 1, sums = 16;

void kernel_main() {
    const uint32_t pages = get_arg_val<uint32_t>(0);
    binary_op_init_common(values, weights, sums);
    add_tiles_init(values, weights);
    for (uint32_t page = 0; page < pages; page++) {
        cb_wait_front(weights, 1);
        cb_wait_front(values, 1);
        tile_regs_acquire();
        add_tiles(values, weights, 0, 0, 0);
        tile_regs_commit();
        cb_pop_front(weights, 1);
        cb_pop_front(values, 1);
        cb_reserve_back(sums, 1);
        tile_regs_wait();
        pack_tile(0, sums);
        tile_regs_release();
        cb_push_back(sums, 1);
    }
}

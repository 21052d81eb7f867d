// Sums of tiles of several formats, between which nothing but the formats of operands change. For each index: buffers 0 + 1,
// 2 + 1, 2 + 3, 0 + 1 and 3 + 2. Argument 0: how many.
#include "api/compute/eltwise_binary.h"
#include "api/compute/reconfig_data_format.h"

static inline __attribute__((always_inline)) void sum(uint32_t a, uint32_t b, uint32_t out) {
    tile_regs_acquire();
    add_tiles(a, b, 0, 0, 0);
    tile_regs_commit();
    tile_regs_wait();
    cb_reserve_back(out, 1);
    pack_tile(0, out);
    cb_push_back(out, 1);
    tile_regs_release();
}

void kernel_main() {
    binary_op_init_common(0, 1, 16);
    add_tiles_init(0, 1);
    for (uint32_t n = get_arg_val<uint32_t>(0); n != 0; n--) {
        for (uint32_t cb = 0; cb < 4; cb++) {
            cb_wait_front(cb, 1);
        }
        sum(0, 1, 16);
        reconfig_data_format_srca(0, 2);
        sum(2, 1, 16);
        reconfig_data_format_srcb(1, 3);
        sum(2, 3, 16);
        reconfig_data_format(2, 0, 3, 1);
        sum(0, 1, 16);
        reconfig_data_format(3, 2);
        sum(3, 2, 16);
        reconfig_data_format_srca(0);
        reconfig_data_format_srcb(1);
        for (uint32_t cb = 0; cb < 4; cb++) {
            cb_pop_front(cb, 1);
        }
    }
}

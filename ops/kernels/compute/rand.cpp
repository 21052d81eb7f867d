// Random numbers, evenly distributed. Each core has a generator of its own.
//
// Arguments: 0 first tile of the result, 1 number of tiles. Common arguments: 0 seed, 1 the least number, 2 the width of the range, both
// as the bits of an fp32.

#include "../blocks.h"
#include "api/compute/eltwise_unary/rand.h"

void kernel_main() {
    const uint32_t from = get_common_arg_val<uint32_t>(1), width = get_common_arg_val<uint32_t>(2);
    init_sfpu(kOut, kOut);
    rand_tile_init(get_common_arg_val<uint32_t>(0) + get_arg_val<uint32_t>(0));
    for (uint32_t tiles = get_arg_val<uint32_t>(1); tiles != 0; tiles--) {
        tile_regs_acquire();
        rand_tile(0, from, width);
        tile_regs_commit();
        cb_reserve_back(kOut, 1);
        tile_regs_wait();
        pack_tile(0, kOut);
        tile_regs_release();
        cb_push_back(kOut, 1);
    }
}

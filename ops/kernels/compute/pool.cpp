// The largest of the elements at the same place of several tiles; the reader is ../pool_reader.cpp.
//
// Arguments: 0 first tile of the result, 1 number of tiles, 2 tiles for each of them.

#include "../blocks.h"
#include "api/compute/binary_max_min.h"
#include "api/compute/tile_move_copy.h"

void kernel_main() {
    const uint32_t tiles = get_arg_val<uint32_t>(1), each = get_arg_val<uint32_t>(2);
    init_sfpu(kLeft, kOut);
    for (uint32_t tile = 0; tile < tiles; tile++) {
        tile_regs_acquire();
        for (uint32_t i = 0; i < each; i++) {
            cb_wait_front(kLeft, 1);
            copy_tile(kLeft, 0, i == 0 ? 0 : 1);
            cb_pop_front(kLeft, 1);
            if (i > 0) {
                binary_max_tile(0, 1, 0);
            }
        }
        tile_regs_commit();
        cb_reserve_back(kOut, 1);
        tile_regs_wait();
        pack_tile(0, kOut);
        tile_regs_release();
        cb_push_back(kOut, 1);
    }
}

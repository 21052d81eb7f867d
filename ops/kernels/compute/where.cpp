// Elements of a second tensor where those of a first one are not zero, of a third one elsewhere. The reader is ../tile_reader.cpp.
//
// Arguments: 0 first tile of the result, 1 number of tiles.

#include "../blocks.h"
#include "api/compute/eltwise_unary/sfpu_split_includes.h"
#include "api/compute/eltwise_unary/where.h"

void kernel_main() {
    init_sfpu(kLeft, kOut);
    for (uint32_t tiles = get_arg_val<uint32_t>(1); tiles != 0; tiles--) {
        cb_wait_front(kLeft, 1);
        cb_wait_front(kRight, 1);
        cb_wait_front(kConstant, 1);
        tile_regs_acquire();
        copy_tile(kLeft, 0, 0);
        copy_tile(kRight, 0, 1);
        copy_tile(kConstant, 0, 2);
        where_tile(0, 1, 2, 0);
        tile_regs_commit();
        cb_pop_front(kLeft, 1);
        cb_pop_front(kRight, 1);
        cb_pop_front(kConstant, 1);
        cb_reserve_back(kOut, 1);
        tile_regs_wait();
        pack_tile(0, kOut);
        tile_regs_release();
        cb_push_back(kOut, 1);
    }
}

// Passes the tiles of this core's shards of one or two operands to the engines, whose circular buffers are placed in the shards
// and in that of the result, and waits for the result. BRISC.
//
// Unique arguments: 0 unused, 1 number of tiles. Common arguments: 0 number of operands whose circular buffers differ.

#include "blocks.h"
#include "tensor.h"

void kernel_main() {
    const uint32_t tiles = rp_arg(1);
    cb_reserve_back(kLeft, tiles);
    cb_push_back(kLeft, tiles);
    if (rp_common_arg(0) == 2) {
        cb_reserve_back(kRight, tiles);
        cb_push_back(kRight, tiles);
    }
    cb_wait_front(kOut, tiles);
}

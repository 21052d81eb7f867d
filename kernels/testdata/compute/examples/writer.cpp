// The subblocks of blocks.cpp to their place in a matrix. Arguments: 0 address, 1 first tile, 2 tiles in a row of the matrix, 3 and
// 4 rows and columns of subblocks, 5 and 6 rows and columns of tiles in one.
#include "api/dataflow/dataflow_api.h"

void kernel_main() {
    constexpr uint32_t cb = 16;
    const InterleavedAddrGenFast<true> matrix = {get_arg_val<uint32_t>(0), get_tile_size(cb), get_dataformat(cb)};
    const uint32_t first = get_arg_val<uint32_t>(1), row = get_arg_val<uint32_t>(2);
    const uint32_t h = get_arg_val<uint32_t>(5), w = get_arg_val<uint32_t>(6);
    for (uint32_t i = 0; i < get_arg_val<uint32_t>(3); i++) {
        for (uint32_t j = 0; j < get_arg_val<uint32_t>(4); j++) {
            cb_wait_front(cb, h * w);
            uint32_t from = get_read_ptr(cb);
            for (uint32_t t = 0; t < h * w; t++, from += get_tile_size(cb)) {
                noc_async_write_tile(first + (i * h + t / w) * row + j * w + t % w, matrix, from);
            }
            noc_async_write_barrier();
            cb_pop_front(cb, h * w);
        }
    }
}

// A core's part of a product of large matrices, written as tt-metal's example with reuse and multicast is: blocks of both operands
// along the inner dimension, of the result a subblock in Dst at a time, and partial results in buffer 24 until the last block.
//
// Compile-time arguments: 0 tiles of the inner dimension in a block, 1 and 2 rows and columns of subblocks, 3 and 4 rows and
// columns of tiles in one, 5 blocks.
#include <cstdint>

#include "compute_kernel_api/compute_kernel_hw_startup.h"
#include "compute_kernel_api/matmul.h"
#include "compute_kernel_api/tile_move_copy.h"

namespace NAMESPACE {
void MAIN {
    constexpr uint32_t inner = get_compile_time_arg_val(0);
    constexpr uint32_t down = get_compile_time_arg_val(1), across = get_compile_time_arg_val(2);
    constexpr uint32_t h = get_compile_time_arg_val(3), w = get_compile_time_arg_val(4);
    constexpr uint32_t blocks = get_compile_time_arg_val(5);
    constexpr auto left = tt::CBIndex::c_0, right = tt::CBIndex::c_1, out = tt::CBIndex::c_16, partial = tt::CBIndex::c_24;
    compute_kernel_hw_startup(left, right, out);
    matmul_init(left, right);
    for (uint32_t block = 0; block < blocks; block++) {
        cb_wait_front(left, down * h * inner);
        cb_wait_front(right, inner * across * w);
        for (uint32_t i = 0; i < down; i++) {
            for (uint32_t j = 0; j < across; j++) {
                acquire_dst();
                if (block != 0) {
                    copy_tile_to_dst_init_short(partial);
                    cb_wait_front(partial, h * w);
                    for (uint32_t t = 0; t < h * w; t++) {
                        copy_tile(partial, t, t);
                    }
                    cb_pop_front(partial, h * w);
                    matmul_init(left, right);
                }
                for (uint32_t r = 0, dst = 0; r < h; r++) {
                    for (uint32_t c = 0; c < w; c++, dst++) {
                        for (uint32_t k = 0; k < inner; k++) {
                            matmul_tile(left, right, (i * h + r) * inner + k, k * across * w + j * w + c, dst, false);
                        }
                    }
                }
                const auto to = block == blocks - 1 ? out : partial;
                cb_reserve_back(to, h * w);
                for (uint32_t t = 0; t < h * w; t++) {
                    pack_tile(t, to);
                }
                cb_push_back(to, h * w);
                release_dst();
            }
        }
        cb_pop_front(left, down * h * inner);
        cb_pop_front(right, inner * across * w);
    }
}
}  // namespace NAMESPACE

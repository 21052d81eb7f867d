// The product of two matrices of tiles, a tile of the result at a time. The reader brings the tiles as they are needed.
#include <cstdint>

#include "compute_kernel_api/matmul.h"
#include "compute_kernel_api/tile_move_copy.h"

using std::uint32_t;

namespace NAMESPACE {
void MAIN {
    const uint32_t rows = get_compile_time_arg_val(0);
    const uint32_t inner = get_compile_time_arg_val(1);
    const uint32_t columns = get_compile_time_arg_val(2);
    constexpr auto left = tt::CBIndex::c_0, right = tt::CBIndex::c_1, out = tt::CBIndex::c_16;
    mm_init(left, right, out);
    for (uint32_t i = 0; i < rows * columns; i++) {
        tile_regs_acquire();
        for (uint32_t k = 0; k < inner; k++) {
            cb_wait_front(left, 1);
            cb_wait_front(right, 1);
            matmul_tiles(left, right, 0, 0, 0);
            cb_pop_front(left, 1);
            cb_pop_front(right, 1);
        }
        tile_regs_commit();
        tile_regs_wait();
        cb_reserve_back(out, 1);
        pack_tile(0, out);
        cb_push_back(out, 1);
        tile_regs_release();
    }
}
}  // namespace NAMESPACE

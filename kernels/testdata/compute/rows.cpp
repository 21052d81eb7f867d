// Rows to tiles (ACTION 0), tiles to rows (1), sums in L1 and a rectifier (2) or tiles to rows as packers do it (3, for 3 tiles).
// Arguments: 0 rows of tiles, 1 tiles in each.
#include "api/compute/pack_untilize.h"
#include "api/compute/tilize.h"
#include "api/compute/untilize.h"

constexpr uint32_t in = 0, out = 16;

void kernel_main() {
    const uint32_t rows = get_arg_val<uint32_t>(0), tiles = get_arg_val<uint32_t>(1);
    compute_kernel_hw_startup(in, out);
#if ACTION == 2
    // Each result is the sum of as many tiles, of which negative data count as zero.
    copy_init(in);
    for (uint32_t r = 0; r < rows; r++) {
        cb_reserve_back(out, 1);
        for (uint32_t t = 0; t < tiles; t++) {
            pack_reconfig_l1_acc(t != 0);
            pack_relu_config(1);
            cb_wait_front(in, 1);
            tile_regs_acquire();
            copy_tile(in, 0, 1);
            tile_regs_commit();
            cb_pop_front(in, 1);
            tile_regs_wait();
            pack_tile<true>(1, out, 0);
            tile_regs_release();
        }
        cb_push_back(out, 1);
    }
#else
#if ACTION == 0
    tilize_init(in, tiles, out);
#elif ACTION == 3
    pack_untilize_init<3>(in, out);
#else
    untilize_init(in, out);
#endif
    for (uint32_t r = 0; r < rows; r++) {
        cb_wait_front(in, tiles);
        cb_reserve_back(out, tiles);
#if ACTION == 0
        tilize_block(in, tiles, out);
#elif ACTION == 3
        pack_untilize_block<3>(in, 1, out);
#else
        untilize_block(in, tiles, out);
#endif
        cb_push_back(out, tiles);
        cb_pop_front(in, tiles);
    }
#if ACTION == 0
    tilize_uninit(in, out);
#elif ACTION == 3
    pack_untilize_uninit(out);
#else
    untilize_uninit(in);
#endif
#endif
}

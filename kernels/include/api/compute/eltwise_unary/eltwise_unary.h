// What functions of one tile of Dst, which replace it, have in common. Their inits do nothing: a function sets what it needs.
#pragma once

#include "api/compute/tile_move_copy.h"
#include "reprise/compute/sfpu.h"

enum class VectorMode { None, R = 1, C = 2, RC = 4, RC_custom = 6, Invalid = 0xFF };
enum class Approx : bool { Exact = false, Fast = true };

ALWI void unary_op_init_common(uint32_t cb, uint32_t out) {
    compute_kernel_hw_startup(cb, out);
    copy_tile_to_dst_init_short(cb);
}
ALWI void init_sfpu(uint32_t cb, uint32_t out) { unary_op_init_common(cb, out); }

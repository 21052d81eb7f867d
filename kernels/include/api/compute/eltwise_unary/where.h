// b where a is not zero, else c: tiles of Dst.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

ALWI void where_tile_init() {}
ALWI void where_tile(uint32_t a, uint32_t b, uint32_t c, uint32_t out) {
    MATH((reprise::sfpu::where(a, b, c, out)));
    (void)a, (void)b, (void)c, (void)out;
}
ALWI void where_fp32_tile(uint32_t a, uint32_t b, uint32_t c, uint32_t out) { where_tile(a, b, c, out); }

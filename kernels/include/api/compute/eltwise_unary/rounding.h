// Whole numbers near x: below it, above it, towards zero, nearest (halves to even), and the rest of x from zero.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

ALWI void floor_tile_init() {}
ALWI void floor_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::floor(); store(l0); })));
    (void)dst;
}
ALWI void ceil_tile_init() {}
ALWI void ceil_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::ceil(); store(l0); })));
    (void)dst;
}
ALWI void trunc_tile_init() {}
ALWI void trunc_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::trunc(); store(l0); })));
    (void)dst;
}
ALWI void frac_tile_init() {}
ALWI void frac_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::frac(); store(l0); })));
    (void)dst;
}
ALWI void rounding_op_tile_init() {}
ALWI void round_tile_init() {}
// Only to whole numbers: decimals is 0.
ALWI void round_tile(uint32_t dst, int32_t decimals = 0) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::nearest(); store(l0); })));
    (void)dst, (void)decimals;
}

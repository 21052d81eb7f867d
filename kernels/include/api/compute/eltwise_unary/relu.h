// Rectifiers.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

ALWI void relu_tile_init() {}
ALWI void relu_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); max(l0, zero); store_exact(l0); })));
    (void)dst;
}

// x within 0 and an upper limit; the greater of x and a lower limit. Limits are the bits of an fp32.
ALWI void relu_max_tile_init() {}
ALWI void relu_max_tile(uint32_t dst, uint32_t limit) {
    MATH((reprise::sfpu::relu_max(dst, limit)));
    (void)dst, (void)limit;
}
ALWI void relu_min_tile_init() {}
ALWI void relu_min_tile(uint32_t dst, uint32_t limit) {
    MATH((reprise::sfpu::relu_min(dst, limit)));
    (void)dst, (void)limit;
}
// x, or slope times x where it is negative; the slope as the bits of an fp32.
ALWI void leaky_relu_tile_init() {}
ALWI void leaky_relu_tile(uint32_t dst, uint32_t slope) {
    MATH((reprise::sfpu::leaky_relu(dst, slope)));
    (void)dst, (void)slope;
}

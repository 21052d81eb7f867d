// The greater and the lesser of the data of two tiles of Dst.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

ALWI void binary_max_tile_init() {}
ALWI void binary_max_tile(uint32_t a, uint32_t b, uint32_t out) {
    MATH((reprise::sfpu::binary(a, b, out, [] { reprise::sfpu::max(reprise::sfpu::l0, reprise::sfpu::l7); })));
    (void)a, (void)b, (void)out;
}
ALWI void binary_min_tile_init() {}
ALWI void binary_min_tile(uint32_t a, uint32_t b, uint32_t out) {
    MATH((reprise::sfpu::binary(a, b, out, [] { reprise::sfpu::min(reprise::sfpu::l0, reprise::sfpu::l7); })));
    (void)a, (void)b, (void)out;
}

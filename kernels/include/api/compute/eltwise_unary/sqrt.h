// Square root.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

template <bool fast_and_approximate = false>
ALWI void sqrt_tile_init() {}
template <bool fast_and_approximate = false>
ALWI void sqrt_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::sqrt(); store_exact(l0); })));
    (void)dst;
}

// One over the square root.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

template <bool legacy = false, bool fast_and_approximate = false>
ALWI void rsqrt_tile_init() {}
template <bool legacy = false, bool fast_and_approximate = false>
ALWI void rsqrt_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::rsqrt(); store_exact(l0); })));
    (void)dst;
}

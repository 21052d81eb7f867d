// Gaussian error linear unit: x times the normal distribution below x.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

template <bool fast_and_approximate = true>
ALWI void gelu_tile_init() {}
template <bool fast_and_approximate = true>
ALWI void gelu_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::gelu(); store(l0); })));
    (void)dst;
}

// 1 / x.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

template <bool legacy = true>
ALWI void recip_tile_init() {}
template <bool legacy = true>
ALWI void recip_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::recip(); store(l0); })));
    (void)dst;
}

// -x.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

ALWI void negative_tile_init() {}
ALWI void negative_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); neg(l0, l0); store_exact(l0); })));
    (void)dst;
}

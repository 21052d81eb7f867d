// e^x.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

template <bool approximate = false, bool fast = false>
ALWI void exp_tile_init() {}
template <bool approximate = false, bool fast = false>
ALWI void exp_tile(uint32_t dst) {
    MATH((reprise::sfpu::exp_tile(dst)));
    (void)dst;
}

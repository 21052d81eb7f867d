// Data of Dst in another format. Formats are numbered as tt-metal's DataFormat: 0 fp32, 5 bf16, 8 int32, 9 uint16.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

ALWI void typecast_tile_init() {}
template <uint32_t from, uint32_t to>
ALWI void typecast_tile_init() {}
template <uint32_t from, uint32_t to>
ALWI void typecast_tile(uint32_t dst) {
    MATH((reprise::sfpu::typecast<from, to>(dst)));
    (void)dst;
}

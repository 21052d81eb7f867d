// One number in all of a tile.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

ALWI void fill_tile_init() {}
// The number is rounded to what Dst holds.
ALWI void fill_tile_bitcast(uint32_t dst, uint32_t bits) {
    MATH((reprise::sfpu::fill(dst, bits)));
    (void)dst, (void)bits;
}
ALWI void fill_tile(uint32_t dst, float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, 4);
    fill_tile_bitcast(dst, bits);
}
// An integer in a wide Dst: sign and magnitude.
ALWI void fill_tile_int(uint32_t dst, uint32_t value) {
    MATH((reprise::sfpu::fill<RP_SFPU_INT32>(dst, value)));
    (void)dst, (void)value;
}

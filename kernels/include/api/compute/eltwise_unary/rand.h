// Random numbers.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

// Starts the generator of each lane anew.
ALWI void rand_tile_init(uint32_t seed) {
    MATH((reprise::sfpu::seed(seed)));
    (void)seed;
}
// Numbers evenly distributed from `from` on, up to from + scale; both are the bits of an fp32.
ALWI void rand_tile(uint32_t dst, uint32_t from, uint32_t scale) {
    MATH((reprise::sfpu::random(dst, from, scale)));
    (void)dst, (void)from, (void)scale;
}

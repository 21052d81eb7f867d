// Functions of two tiles of Dst by the vector unit, in fp32.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

ALWI void add_binary_tile_init() {}
ALWI void add_binary_tile(uint32_t a, uint32_t b, uint32_t out) {
    MATH((reprise::sfpu::binary(a, b, out, [] { using namespace reprise::sfpu; add(l0, l0, l7); })));
    (void)a, (void)b, (void)out;
}
ALWI void sub_binary_tile_init() {}
ALWI void sub_binary_tile(uint32_t a, uint32_t b, uint32_t out) {
    MATH((reprise::sfpu::binary(a, b, out, [] { using namespace reprise::sfpu; neg(l1, l7); add(l0, l0, l1); })));
    (void)a, (void)b, (void)out;
}
ALWI void mul_binary_tile_init() {}
ALWI void mul_binary_tile(uint32_t a, uint32_t b, uint32_t out) {
    MATH((reprise::sfpu::binary(a, b, out, [] { using namespace reprise::sfpu; mul(l0, l0, l7); })));
    (void)a, (void)b, (void)out;
}
ALWI void div_binary_tile_init() {}
ALWI void div_binary_tile(uint32_t a, uint32_t b, uint32_t out) {
    MATH((reprise::sfpu::binary(a, b, out, [] { using namespace reprise::sfpu; mov(l6, l0); mov(l0, l7); reprise::sfpu::recip(); mul(l0, l0, l6); })));
    (void)a, (void)b, (void)out;
}
ALWI void rsub_binary_tile_init() {}
ALWI void rsub_binary_tile(uint32_t a, uint32_t b, uint32_t out) {
    MATH((reprise::sfpu::binary(a, b, out, [] { using namespace reprise::sfpu; neg(l0, l0); add(l0, l0, l7); })));
    (void)a, (void)b, (void)out;
}

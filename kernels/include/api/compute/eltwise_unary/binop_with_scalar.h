// x and a number, given as the bits of an fp32: x + n, x - n, x n, x / n by way of 1/n that is given, n - x.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

ALWI void add_unary_tile(uint32_t dst, uint32_t number) {
    MATH((reprise::sfpu::with_number(dst, number, [] { using namespace reprise::sfpu; add(l0, l0, l7); })));
    (void)dst, (void)number;
}
ALWI void sub_unary_tile(uint32_t dst, uint32_t number) {
    MATH((reprise::sfpu::with_number(dst, number, [] { using namespace reprise::sfpu; neg(l1, l7); add(l0, l0, l1); })));
    (void)dst, (void)number;
}
ALWI void mul_unary_tile(uint32_t dst, uint32_t number) {
    MATH((reprise::sfpu::with_number(dst, number, [] { using namespace reprise::sfpu; mul(l0, l0, l7); })));
    (void)dst, (void)number;
}
ALWI void div_unary_tile(uint32_t dst, uint32_t number) {
    MATH((reprise::sfpu::with_number(dst, number, [] { using namespace reprise::sfpu; mul(l0, l0, l7); })));
    (void)dst, (void)number;
}
ALWI void rsub_unary_tile(uint32_t dst, uint32_t number) {
    MATH((reprise::sfpu::with_number(dst, number, [] { using namespace reprise::sfpu; neg(l0, l0); add(l0, l0, l7); })));
    (void)dst, (void)number;
}
ALWI void binop_with_scalar_tile_init() {}

// Functions of one tile of Dst that tt-metal keeps in this header.
#pragma once

#include "api/compute/eltwise_unary/eltwise_unary.h"

template <bool fast_and_approximate = false>
ALWI void sigmoid_tile_init() {}
template <bool fast_and_approximate = false>
ALWI void sigmoid_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::sigmoid(); store(l0); })));
    (void)dst;
}
ALWI void silu_tile_init() {}
ALWI void silu_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::silu(); store(l0); })));
    (void)dst;
}
template <bool fast_and_approximate = false>
ALWI void tanh_tile_init() {}
template <bool fast_and_approximate = false>
ALWI void tanh_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::tanh(); store(l0); })));
    (void)dst;
}
template <bool fast_and_approximate = false>
ALWI void log_tile_init() {}
template <bool fast_and_approximate = false>
ALWI void log_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::log(); store_exact(l0); })));
    (void)dst;
}
// The base as the bits of 1 / ln base.
template <bool fast_and_approximate = false>
ALWI void log_with_base_tile_init() {}
template <bool fast_and_approximate = false>
ALWI void log_with_base_tile(uint32_t dst, uint32_t scale) {
    MATH((reprise::sfpu::with_number(dst, scale, [] { reprise::sfpu::log([] { reprise::sfpu::mul(reprise::sfpu::l1, reprise::sfpu::l1, reprise::sfpu::l7); }); })));
    (void)dst, (void)scale;
}
ALWI void abs_tile_init() {}
ALWI void abs_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); abs(l0, l0); store_exact(l0); })));
    (void)dst;
}
ALWI void sign_tile_init() {}
ALWI void sign_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); reprise::sfpu::sign(); store_exact(l0); })));
    (void)dst;
}
ALWI void square_tile_init() {}
ALWI void square_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); mul(l0, l0, l0); store(l0); })));
    (void)dst;
}
ALWI void signbit_tile_init() {}
ALWI void signbit_tile(uint32_t dst) {
    MATH((reprise::sfpu::each(dst, [] { using namespace reprise::sfpu; load(l0); mov(l1, l0); loadi(l0, 0); where_negative(l1); loadi(l0, 0x3F800000); all(); store_exact(l0); })));
    (void)dst;
}

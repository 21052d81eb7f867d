// What a kernel calls first: formats of two operands and of the result. The inits of operations that come later say how
// operands are taken.
#pragma once

#include "api/compute/common_globals.h"

ALWI void compute_kernel_hw_startup(uint32_t cb_a, uint32_t cb_b, uint32_t cb_out) {
    UNPACK((reprise::unpack::init(cb_a, cb_b)));
    MATH((reprise::math::formats(reprise::source_format(reprise::cb_format(cb_a)), reprise::source_format(reprise::cb_format(cb_b)))));
    PACK((reprise::pack::configure(reprise::cb_format(cb_out))));
    (void)cb_a, (void)cb_b, (void)cb_out;
}
ALWI void compute_kernel_hw_startup(uint32_t cb_a, uint32_t cb_out) { compute_kernel_hw_startup(cb_a, cb_a, cb_out); }

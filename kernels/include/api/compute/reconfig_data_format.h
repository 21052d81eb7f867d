// Other formats of operands, between operations whose inits don't say them.
#pragma once

#include "api/compute/common_globals.h"

ALWI void reconfig_data_format(uint32_t cb_a, uint32_t cb_b) {
    UNPACK((reprise::unpack::init(cb_a, cb_b)));
    MATH((reprise::math::formats_of(cb_a, cb_b)));
    (void)cb_a, (void)cb_b;
}
ALWI void reconfig_data_format(uint32_t, uint32_t cb_a, uint32_t, uint32_t cb_b) { reconfig_data_format(cb_a, cb_b); }
ALWI void reconfig_data_format_srca(uint32_t cb) {
    UNPACK((reprise::unpack::init(cb)));
    MATH((reprise::math::format_a(reprise::source_format(reprise::cb_format(cb)))));
    (void)cb;
}
ALWI void reconfig_data_format_srca(uint32_t, uint32_t cb) { reconfig_data_format_srca(cb); }
ALWI void reconfig_data_format_srcb(uint32_t cb) {
    UNPACK((reprise::unpack::begin()));
    UNPACK((reprise::unpack::configure(1, reprise::cb_format(cb))));
    UNPACK((reprise::unpack::end()));
    MATH((reprise::math::format_b(reprise::source_format(reprise::cb_format(cb)))));
    (void)cb;
}
ALWI void reconfig_data_format_srcb(uint32_t, uint32_t cb) { reconfig_data_format_srcb(cb); }

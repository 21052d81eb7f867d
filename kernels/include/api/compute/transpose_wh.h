// Tiles with rows and columns exchanged.
#pragma once

#include "api/compute/tile_move_copy.h"

ALWI void transpose_wh_init_short(uint32_t cb) {
    UNPACK((reprise::unpack::init(cb, true)));
    MATH((reprise::math::copy_init(cb, true)));
    (void)cb;
}
ALWI void transpose_wh_init(uint32_t cb, uint32_t out) {
    PACK((reprise::pack::configure(reprise::cb_format(out))));
    transpose_wh_init_short(cb);
    (void)out;
}
// Formats of 16 bits and less; of fp32, 19 bits.
ALWI void transpose_wh_tile(uint32_t cb, uint32_t tile, uint32_t dst) {
    UNPACK((reprise::unpack::tile_a(cb, tile)));
    MATH((reprise::math::copy(dst)));
    (void)cb, (void)tile, (void)dst;
}

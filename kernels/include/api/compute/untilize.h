// Rows of tiles: the inverse of tilize. Data of 16 and 32 bits.
#pragma once

#include "api/compute/tile_move_copy.h"
#include "reprise/compute/tilize.h"

ALWI void untilize_init_short(uint32_t cb) {
    UNPACK((reprise::unpack::untilize_init(cb)));
    if (!reprise::to_dst(cb)) {
        MATH((reprise::math::copy_init(cb)));
    }
    (void)cb;
}
ALWI void untilize_init(uint32_t cb) { untilize_init_short(cb); }
ALWI void untilize_init(uint32_t cb, uint32_t out) {
    untilize_init_short(cb);
    PACK((reprise::pack::configure(reprise::cb_format(out))));
    (void)out;
}
// It acquires and releases Dst itself, for each page.
template <uint32_t = 1>
ALWI void untilize_block(uint32_t cb, uint32_t tiles, uint32_t out) {
    for (uint32_t page = 0; page < tiles; page++) {
        tile_regs_acquire();
        UNPACK((reprise::unpack::untilize(cb, tiles, page)));
        if (reprise::to_dst(cb)) {
            MATH((reprise::math::copy_directly()));
        } else {
            MATH((reprise::math::copy(0)));
        }
        tile_regs_commit();
        tile_regs_wait();
        pack_tile(0, out);
        tile_regs_release();
    }
}
ALWI void untilize_uninit(uint32_t) { UNPACK((reprise::unpack::rows_end())); }

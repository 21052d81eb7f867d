// Tiles of rows: 32 rows of a matrix, which stand one after another in as many pages as there are tiles in them. Data of 16 and 32
// bits.
#pragma once

#include "api/compute/tile_move_copy.h"
#include "reprise/compute/tilize.h"

ALWI void tilize_init(uint32_t cb, uint32_t tiles, uint32_t out) {
    UNPACK((reprise::unpack::tilize_init(cb, tiles)));
    if (!reprise::to_dst(cb)) {
        MATH((reprise::math::copy_init(cb)));
    }
    PACK((reprise::pack::configure(reprise::cb_format(out))));
    (void)tiles, (void)out;
}
ALWI void tilize_init_short(uint32_t cb, uint32_t tiles, uint32_t) {
    UNPACK((reprise::unpack::tilize_init(cb, tiles)));
    if (!reprise::to_dst(cb)) {
        MATH((reprise::math::copy_init(cb)));
    }
    (void)tiles;
}
// It acquires and releases Dst itself, for each tile.
ALWI void tilize_block(uint32_t cb, uint32_t tiles, uint32_t out, uint32_t = 0, uint32_t = 0) {
    for (uint32_t t = 0; t < tiles; t++) {
        tile_regs_acquire();
        UNPACK((reprise::unpack::tilize(cb, t)));
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
ALWI void tilize_uninit(uint32_t, uint32_t) { UNPACK((reprise::unpack::rows_end())); }

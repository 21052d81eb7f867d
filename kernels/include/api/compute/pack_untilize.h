// tt-metal's other way to untilize, by the packers; here it is untilize_block.
#pragma once

#include "api/compute/untilize.h"

template <uint32_t tiles = 8, uint32_t all_tiles = tiles>
ALWI void pack_untilize_init(uint32_t cb, uint32_t out) {
    static_assert(tiles == all_tiles, "only whole rows of tiles");
    untilize_init(cb, out);
}
template <uint32_t tiles = 8, uint32_t all_tiles = tiles>
ALWI void pack_untilize_block(uint32_t cb, uint32_t rows, uint32_t out, uint32_t = 0) {
    static_assert(tiles == all_tiles, "only whole rows of tiles");
    for (uint32_t r = 0; r < rows; r++) {
        untilize_block(cb, tiles, out);
    }
}
ALWI void pack_untilize_uninit(uint32_t) { UNPACK((reprise::unpack::rows_end())); }

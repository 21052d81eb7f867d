// Tiles from circular buffers to Dst.
#pragma once

#include "api/compute/common.h"
#include "api/compute/compute_kernel_hw_startup.h"
#include "api/compute/pack.h"
#include "reprise/compute/eltwise.h"

ALWI void copy_tile_to_dst_init_short(uint32_t cb, uint32_t transpose = 0) {
    if (reprise::to_dst(cb)) {
        UNPACK((reprise::unpack::direct_init(cb)));
    } else {
        UNPACK((reprise::unpack::init(cb, transpose != 0)));
        MATH((reprise::math::copy_init(cb, transpose != 0)));
    }
    (void)transpose;
}
ALWI void copy_init(uint32_t cb, uint32_t transpose = 0) { copy_tile_to_dst_init_short(cb, transpose); }
ALWI void copy_tile_init(uint32_t cb) { copy_tile_to_dst_init_short(cb); }
ALWI void copy_tile_to_dst_init_short_with_dt(uint32_t, uint32_t cb, uint32_t transpose = 0) {
    copy_tile_to_dst_init_short(cb, transpose);
}

// Copies a tile of a circular buffer to tile dst of Dst: of fp32 19 bits, but all if the buffer is one that is unpacked to Dst.
ALWI void copy_tile(uint32_t cb, uint32_t tile, uint32_t dst) {
    if (reprise::to_dst(cb)) {
        UNPACK((reprise::unpack::tile_directly(cb, tile, dst)));
        MATH((reprise::math::copy_directly()));
    } else {
        UNPACK((reprise::unpack::tile_a(cb, tile)));
        MATH((reprise::math::copy(dst)));
    }
    (void)tile, (void)dst;
}
ALWI void copy_block_matmul_partials(uint32_t cb, uint32_t tile, uint32_t dst, uint32_t tiles) {
    for (uint32_t i = 0; i < tiles; i++) {
        copy_tile(cb, tile + i, dst + i);
    }
}

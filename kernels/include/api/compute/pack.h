// Packing tiles of Dst into circular buffers.
#pragma once

#include "api/compute/common_globals.h"

// Packs tile dst to the next page of those reserved, or with out_of_order to page output_tile_index of them.
template <bool out_of_order = false>
ALWI void pack_tile(uint32_t dst, uint32_t cb, uint32_t output_tile_index = 0) {
#if defined(TRISC_PACK)
    struct rp_cb* b = &RP_LOCAL->cb[cb];
    uint32_t at = b->fifo_wr_ptr;
    if constexpr (out_of_order) {
        at += output_tile_index * b->fifo_page_size;
    } else {
        at += b->fifo_wr_tile_ptr;
        b->fifo_wr_tile_ptr += b->fifo_page_size;
    }
    reprise::pack::tile(dst, at);
#endif
    (void)dst, (void)cb, (void)output_tile_index;
}
// The same for tiles that follow one another, in Dst and in the buffer.
ALWI void pack_tile_block(uint32_t dst, uint32_t cb, uint32_t tiles) {
    for (uint32_t i = 0; i < tiles; i++) {
        pack_tile(dst + i, cb);
    }
}
// matmul's name for it.
ALWI void matmul_pack_tile(uint32_t dst, uint32_t cb, uint32_t tiles) { pack_tile_block(dst, cb, tiles); }

// From now on tiles are packed in the format of another circular buffer.
ALWI void pack_reconfig_data_format(uint32_t cb) {
    PACK((reprise::pack::configure(reprise::cb_format(cb))));
    (void)cb;
}
ALWI void pack_reconfig_data_format(uint32_t old_cb, uint32_t cb) {
    if (reprise::cb_format(old_cb) != reprise::cb_format(cb)) {
        pack_reconfig_data_format(cb);
    }
}

// Packing adds to what is in L1, or no longer: bf16 and fp32.
ALWI void pack_reconfig_l1_acc(uint32_t accumulate) {
    PACK((reprise::pack::accumulate(accumulate != 0)));
    (void)accumulate;
}

// Packing takes the greater of a datum and zero, or no longer.
ALWI void pack_relu_config(uint32_t config) {
    PACK((reprise::pack::relu(config)));
    (void)config;
}

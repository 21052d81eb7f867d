// Circular buffers in a compute kernel: the unpack thread consumes pages, the pack thread produces them. A page is a tile.
#pragma once

#include "api/compute/common_globals.h"

ALWI void cb_wait_front(uint32_t cb, uint32_t pages) {
    UNPACK((rp_cb_wait_front(cb, pages)));
    (void)cb, (void)pages;
}
// The unpackers have read the pages when the producer may write them.
ALWI void cb_pop_front(uint32_t cb, uint32_t pages) {
    UNPACK((rp_tensix_sync()));
    UNPACK((rp_cb_pop_front(cb, pages)));
    (void)cb, (void)pages;
}
ALWI void cb_reserve_back(uint32_t cb, uint32_t pages) {
    PACK((rp_cb_reserve_back(cb, pages)));
    (void)cb, (void)pages;
}
// The packers have written the pages when the consumer sees them.
ALWI void cb_push_back(uint32_t cb, uint32_t pages) {
    PACK((rp_tensix_sync()));
    PACK((rp_cb_push_back(cb, pages)));
    PACK((RP_LOCAL->cb[cb].fifo_wr_tile_ptr = 0));
    (void)cb, (void)pages;
}
ALWI uint32_t get_tile_size(uint32_t cb) { return rp_cb_page_size(cb); }

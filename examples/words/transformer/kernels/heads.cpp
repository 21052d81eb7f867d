// Deals the heads of one token: queries to a tensor of their own, keys and values to the caches, in the row of the token's position,
// which is in the state. Nothing else of them changes. A head is a tile wide and has up to 16 columns; the others stay as they are.
// BRISC.
//
// Common arguments: addresses of interleaved DRAM buffers: 0 state, 1 a row of queries, keys and values, head after head, each in a
// tile, 2 queries, a tile for each head, 3 cache of keys and 4 of values, a tile for each head. Circular buffer 0 is only used as
// memory in L1.
#include "layout.h"

void kernel_main() {
    const Tiles in = {.bank_base_address = get_common_arg_val<uint32_t>(1), .page_size = kTileBytes};
    const uint32_t state = get_write_ptr(0), rows = state + kStateBytes;
    noc_async_read(get_noc_addr(0, Tiles{.bank_base_address = get_common_arg_val<uint32_t>(0), .page_size = kStateBytes}), state, kStateBytes);
    for (uint32_t i = 0; i < 3 * kHeads; i++) {
        noc_async_read(get_noc_addr(i, in), rows + i * kAligned, kAligned);
    }
    noc_async_read_barrier();
    const uint32_t position = reinterpret_cast<const volatile uint32_t*>(state)[kPosition];
    for (uint32_t i = 0; i < 3 * kHeads; i++) {
        const Tiles out = {.bank_base_address = get_common_arg_val<uint32_t>(2 + i / kHeads), .page_size = kTileBytes};
        noc_async_write(rows + i * kAligned, get_noc_addr(i % kHeads, out, i < kHeads ? 0 : row(position)), kRowBytes);
    }
    noc_async_write_barrier();
}

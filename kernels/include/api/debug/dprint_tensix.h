// Printing a tile of Dst under tt-metal's name, as a matrix: on the math thread, between acquire and commit.
#pragma once

#include "api/compute/common_globals.h"
#include "api/debug/dprint.h"

#if defined(REPRISE_PRINTS) && defined(TRISC_MATH)
namespace reprise {
// Two data of a row of Dst, which the debug registers have.
FORCE_INLINE uint32_t dst_pair(uint32_t row, uint32_t pair) {
    rp_store(0xFFB12064u, 2u << 16 | pair << 12 | row);
    return rp_load(0xFFB1206Cu);
}
// A datum of 16 bits stands in Dst as sign, mantissa, exponent.
FORCE_INLINE uint32_t dst_bf16(uint32_t v) { return (v & 0x8000u) | (v & 0xFFu) << 7 | (v >> 8 & 0x7Fu); }

static __attribute__((noinline, unused)) void print_dst(uint32_t tile) {
    rp_tensix_sync();
    print_record r = {nullptr, nullptr};
    const uint32_t first = (half >> wide_dst) + 64 * tile;
    print_three(&r, item_slice | 1u << 8 | (wide_dst ? 0u : 5u), 32ull << 32 | 1024);
    rp_store(0xFFB12060u, 1);
    for (uint32_t h = 0; h < 32; h++) {
        volatile uint32_t* w = print_room(&r, wide_dst ? 33 : 17);
        *w++ = item_data | (wide_dst ? 128 : 64);
        for (uint32_t x = 0; x < 32; x += 2) {
            const uint32_t row = first + (h >> 4) * 32 + (x >> 4) * 16 + (h & 15);
            const uint32_t pair = x >> 1 & 7;
            if (wide_dst) {
                const uint32_t high = dst_pair((row & ~7u) << 1 | (row & 7), pair);
                const uint32_t low = dst_pair(((row & ~7u) << 1 | (row & 7)) + 8, pair);
                *w++ = dst_bf16(high & 0xFFFFu) << 16 | (low & 0xFFFFu);
                *w++ = dst_bf16(high >> 16) << 16 | low >> 16;
            } else {
                const uint32_t v = dst_pair(row, pair);
                *w++ = dst_bf16(v & 0xFFFFu) | dst_bf16(v >> 16) << 16;
            }
        }
    }
    rp_store(0xFFB12060u, 0);
    print_flush(&r);
}
}  // namespace reprise
#endif

template <bool = false>
ALWI void dprint_tensix_dest_reg(int tile = 0) {
#if defined(REPRISE_PRINTS)
    MATH((reprise::print_dst((uint32_t)tile)));
#endif
    (void)tile;
}

// Rows of tiles.
#pragma once
#include "tensor.h"

// write_row begins to write a row of a tile in L1, as row to of a tile that is at a place. Both halves of a row are a row of a face.
static inline void write_row(rp_place p, uint32_t to, uint32_t tile, uint32_t from, uint32_t size) {
    for (uint32_t face = 0; face < 2; face++) {
        const uint32_t there = ((to / 16 * 2 + face) * 16 + to % 16) * 16 * size;
        const uint32_t here = ((from / 16 * 2 + face) * 16 + from % 16) * 16 * size;
        rp_noc_write(noc_index, p.coord, p.addr + there, tile + here, 16 * size);
    }
}

// repeat_row copies a row of a tile in L1 to all others.
static inline void repeat_row(uint32_t tile, uint32_t row, uint32_t size) {
    const uint32_t words = 4 * size;  // of a row of a face
    for (uint32_t i = 0; i < 64; i++) {  // 4 faces of 16 rows
        if (i / 32 * 16 + i % 16 == row) {
            continue;
        }
        const uint32_t source = (row / 16 * 2 + i / 16 % 2) * 16 + row % 16;
        const volatile uint32_t* from = reinterpret_cast<const volatile uint32_t*>(tile) + source * words;
        volatile uint32_t* to = reinterpret_cast<volatile uint32_t*>(tile) + i * words;
        for (uint32_t w = 0; w < words; w++) {
            to[w] = from[w];
        }
    }
    rp_publish();
}

// Padding of tiles.
#pragma once
#include <cstdint>

// fill_padding stores a value, the bits of an element, in all elements of a tile outside of its first rows and columns.
static inline void fill_padding(uint32_t tile, uint32_t rows, uint32_t columns, uint32_t size, uint32_t value) {
    for (uint32_t i = 0; i < 64; i++, tile += 16 * size) {  // 4 faces of 16 rows
        const uint32_t row = (i >> 5) * 16 + i % 16, column = (i >> 4 & 1) * 16;
        for (uint32_t w = row >= rows || column >= columns ? 0 : columns - column; w < 16; w++) {
            if (size == 2) {
                *reinterpret_cast<volatile uint16_t*>(tile + 2 * w) = value;
            } else {
                *reinterpret_cast<volatile uint32_t*>(tile + 4 * w) = value;
            }
        }
    }
}

// What the data-movement kernels and the compute kernels of the engines agree on.
#pragma once
#include <cstdint>

// The circular buffers: result, operands, and a tile that stays the same.
constexpr uint32_t kOut = 0, kLeft = 1, kRight = 2, kConstant = 3;

// A product is computed in blocks of up to kBlock tiles, which follow one another in a row of the result: as many as Dst has
// room for in 32 bits. They share the tiles of the left operand.
constexpr uint32_t kBlock = 4;

// block_width returns the number of tiles in the block that starts at a page, for a core whose share ends at another page.
static inline uint32_t block_width(uint32_t page, uint32_t end, uint32_t wide) {
    uint32_t n = wide - page % wide;
    if (n > end - page) {
        n = end - page;
    }
    return n < kBlock ? n : kBlock;
}

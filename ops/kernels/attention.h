// What the kernels of attention agree on.
#pragma once
#include <cstdint>

// The circular buffers: result, tiles of queries, keys, values and masks, constants, and what the engines keep of a row of tiles: of
// one chunk of keys scores, probabilities, the greatest score of each row in a column, and sums of values; of all chunks so far the
// greatest score in all columns, a factor, the total of the probabilities in all columns, and sums of values.
constexpr uint32_t kResult = 0, kQueries = 1, kKeys = 2, kValues = 3, kMask = 4, kConstants = 5, kScores = 6, kProbabilities = 7,
                   kGreatest = 8, kGreatestAll = 9, kFactor = 10, kPart = 11, kTotal = 12, kSums = 13;

// kChunk is the number of tiles of keys whose scores are in L1 at once.
constexpr uint32_t kChunk = 8;

// kConstants has two tiles: one with 1 in row 0 of each face and 0 elsewhere, and one of 1.
constexpr uint32_t kFirstRows = 0, kOnes = 1;

// Values come in blocks of up to kColumns tiles of a row: as many as Dst has room for in 32 bits.
constexpr uint32_t kColumns = 4;

// Shape is what an attention depends on besides the position.
struct Shape {
    uint32_t rows, high;  // of queries; rows of their tiles
    uint32_t keys;
    bool causal, masked;  // masked: there is a mask for all tiles

    // limit returns the number of keys that a query attends to, whose row is counted in its matrix.
    uint32_t limit(uint32_t row, uint32_t position) const {
        return causal && position + row + 1 < keys ? position + row + 1 : keys;
    }
    // tiles returns the number of tiles of keys that a row of tiles attends to.
    uint32_t tiles(uint32_t r, uint32_t position) const {
        const uint32_t last = r * 32 + 31 < rows ? r * 32 + 31 : rows - 1;
        return (limit(last, position) + 31) / 32;
    }
    // has_mask says whether some query of a row of tiles doesn't attend to some key of a tile, or there is a mask for all.
    bool has_mask(uint32_t r, uint32_t position, uint32_t tile) const { return masked || tile * 32 + 32 > limit(r * 32, position); }
};

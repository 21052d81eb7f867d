// What the three kernels of a dense layer share: circular buffers, lanes and the packed layer.
//
// The three compute processors of a core work on different images. Each is a lane with a circular buffer of its own on
// either side, so every buffer has one producer and one consumer and nothing else has to be synchronised:
//
//     reader (BRISC) --> input 0, 1, 2 --> dense (TRISC0, 1, 2) --> output 16, 17, 18 --> writer (NCRISC)
//
// Page i of a core's share goes through lane i % 3, in at the back and out at the front in the same order.
#ifndef DIGITS_LAYOUT_H
#define DIGITS_LAYOUT_H

#include <stdint.h>

constexpr uint32_t kLanes = 3;
constexpr uint32_t kInputBuffer = 0;    // and 1, 2: pages of kPageBytes
constexpr uint32_t kWeightsBuffer = 3;  // one page of the packed layer's size; only storage, without push or pop
constexpr uint32_t kOutputBuffer = 16;  // and 17, 18: pages of kPageBytes
constexpr uint32_t kPageBytes = 64;

// The packed layer: see the comment of package digits.
struct PackedLayer {
    uint32_t magic;
    uint32_t in;
    uint32_t out;
    uint32_t rows;
    uint32_t multiplier;
    uint32_t shift;
    uint32_t flags;
    uint32_t biases;   // offset from the header
    uint32_t weights;  // offset from the header
    uint32_t size;
};
constexpr uint32_t kLayerMagic = 0x4C445052;  // "RPDL"
constexpr uint32_t kFlagScores = 1;

#endif

// Products of tiles: Dst += left x right.
#pragma once

#include "api/compute/common.h"
#include "api/compute/compute_kernel_hw_startup.h"
#include "api/compute/pack.h"
#include "reprise/compute/matmul.h"

// Makes products of two circular buffers what the next calls compute; with transpose, of the left one and the transposed tiles
// of the right one.
ALWI void mm_init_short(uint32_t left, uint32_t right, uint32_t transpose = 0) {
    UNPACK((reprise::unpack::init(right, left, transpose != 0)));
    MATH((reprise::math::matmul_init(left, right, transpose != 0)));
    (void)left, (void)right, (void)transpose;
}
ALWI void matmul_init(uint32_t left, uint32_t right, uint32_t transpose = 0) { mm_init_short(left, right, transpose); }
ALWI void mm_init_short_with_dt(uint32_t left, uint32_t right, uint32_t, uint32_t transpose = 0) {
    mm_init_short(left, right, transpose);
}
ALWI void mm_init(uint32_t left = 0, uint32_t right = 1, uint32_t out = 16, uint32_t transpose = 0) {
    mm_init_short(left, right, transpose);
    PACK((reprise::pack::configure(reprise::cb_format(out))));
    (void)out;
}

ALWI void matmul_tiles(uint32_t left, uint32_t right, uint32_t left_tile, uint32_t right_tile, uint32_t dst) {
    UNPACK((reprise::unpack::tiles(right, right_tile, left, left_tile)));
    MATH((reprise::math::matmul(dst)));
    (void)left, (void)right, (void)left_tile, (void)right_tile, (void)dst;
}
ALWI void matmul_tile(uint32_t left, uint32_t right, uint32_t left_tile, uint32_t right_tile, uint32_t dst, uint32_t = 0) {
    matmul_tiles(left, right, left_tile, right_tile, dst);
}

// Blocks of rows x columns tiles, for one index of the inner dimension: tile left_tile + r * inner of the left buffer times
// tile right_tile + c of the right one is added to tile dst + r * columns + c.
ALWI void mm_block_init_short(uint32_t left, uint32_t right, uint32_t transpose = 0, uint32_t = 1, uint32_t = 1, uint32_t = 1) {
    mm_init_short(left, right, transpose);
}
ALWI void matmul_block_init(uint32_t left, uint32_t right, uint32_t transpose = 0, uint32_t = 1, uint32_t = 1, uint32_t = 1) {
    mm_init_short(left, right, transpose);
}
ALWI void mm_block_init_short_with_dt(uint32_t left, uint32_t right, uint32_t, uint32_t transpose = 0, uint32_t = 1,
                                      uint32_t = 1, uint32_t = 1) {
    mm_init_short(left, right, transpose);
}
ALWI void mm_block_init(uint32_t left, uint32_t right, uint32_t out, uint32_t transpose = 0, uint32_t = 1, uint32_t = 1,
                        uint32_t = 1) {
    mm_init(left, right, out, transpose);
}
ALWI void matmul_block(uint32_t left, uint32_t right, uint32_t left_tile, uint32_t right_tile, uint32_t dst, uint32_t,
                       uint32_t columns, uint32_t rows, uint32_t inner) {
    UNPACK((reprise::unpack::matmul_block(left, right, left_tile, right_tile, columns, rows, inner)));
    MATH((reprise::math::matmul_block(dst, columns, rows)));
    (void)left, (void)right, (void)left_tile, (void)right_tile, (void)dst, (void)columns, (void)rows, (void)inner;
}

// Products of matrices of tiles, block by block; the reader is ../matmul_reader.cpp. A bias is one more index of the inner
// dimension: a tile with ones in its first column, which is in kConstant, times tiles with the bias in their first row. With
// FUNCTION, a function of the compute API is applied to the elements of the result.
//
// Arguments: 0 first tile of the result, 1 number of tiles, 2 tiles in a row of the result, 3 tiles of the inner dimension, 4
// whether there is a bias; with TRANSPOSED also 5 whether the left operand is transposed, 6 whether the right one is.

#include "../blocks.h"
#include "api/compute/eltwise_unary/sfpu_split_includes.h"
#include "transposed.h"

// turn_next turns tiles of the left operand as they arrive.
ALWI void turn_next(uint32_t tiles, uint32_t transpose_right) {
    begin_turns(reprise::cb_format(kOut));
    cb_reserve_back(kTurned, kTurn);
    turn(tiles, [](uint32_t) {
        cb_wait_front(kLeft, 1);
        UNPACK((reprise::unpack::tile_a(kLeft, 0)));
        cb_pop_front(kLeft, 1);
    });
    cb_push_back(kTurned, kTurn);
    end_turns(reprise::cb_format(kOut), transpose_right);
    cb_wait_front(kTurned, kTurn);
}

void kernel_main() {
    const uint32_t first = get_arg_val<uint32_t>(0), end = first + get_arg_val<uint32_t>(1);
    const uint32_t wide = get_arg_val<uint32_t>(2), inner = get_arg_val<uint32_t>(3);
    const bool bias = get_arg_val<uint32_t>(4) != 0;
    const bool turned = TRANSPOSED && get_arg_val<uint32_t>(5) != 0;
    const uint32_t transpose_right = TRANSPOSED ? get_arg_val<uint32_t>(6) : 0;
    mm_init(kLeft, kRight, kOut, transpose_right);
    if (bias) {
        cb_wait_front(kConstant, 1);
    }
    for (uint32_t page = first; page != end;) {
        const uint32_t count = block_width(page, end, wide);
        tile_regs_acquire();
        for (uint32_t k = 0; k < inner; k++) {
            if (!turned) {
                cb_wait_front(kLeft, 1);
                cb_wait_front(kRight, kBlock);
                matmul_block(kLeft, kRight, 0, 0, 0, 0, count, 1, 1);
                cb_pop_front(kLeft, 1);
            } else {
                if (k % kTurn == 0) {
                    turn_next(inner - k < kTurn ? inner - k : kTurn, transpose_right);
                }
                cb_wait_front(kRight, kBlock);
                matmul_block(kTurned, kRight, k % kTurn, 0, 0, 0, count, 1, 1);
                if (k % kTurn == kTurn - 1 || k == inner - 1) {
                    cb_pop_front(kTurned, kTurn);
                }
            }
            cb_pop_front(kRight, kBlock);
        }
        if (bias) {
            if (transpose_right) {
                mm_init_short(kConstant, kRight);
            }
            cb_wait_front(kRight, kBlock);
            matmul_block(kConstant, kRight, 0, 0, 0, 0, count, 1, 1);
            cb_pop_front(kRight, kBlock);
            if (transpose_right) {
                mm_init_short(kLeft, kRight, 1);
            }
        }
#if defined(FUNCTION) && defined(TRISC_MATH)
        for (uint32_t i = 0; i < count; i++) {
            FUNCTION(i);
        }
#endif
        tile_regs_commit();
        tile_regs_wait();
        for (uint32_t i = 0; i < count; i++) {
            cb_reserve_back(kOut, 1);
            pack_tile(i, kOut);
            cb_push_back(kOut, 1);
        }
        tile_regs_release();
        page += count;
    }
}

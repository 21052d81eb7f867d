// A core's blocks of a product of matrices of tiles; ../matmul_left.cpp and ../matmul_right.cpp bring the operands. A part of the
// block that Dst has room for is computed after another. Tiles of the first part are used as they arrive; they stay for the others.
// If not all of the inner dimension has room in L1, sums of a pass are kept in kPartial, with all bits, until the next one goes on
// with them: the result doesn't depend on how the product is cut. Where the block is one part, they stay in Dst.
//
// A bias is one more index of the inner dimension, as in matmul.cpp. With FUNCTION, a function of the compute API is applied to the
// elements of the result. Arguments: those of Blocks.

#include "../matmul_blocks.h"
#include "api/compute/eltwise_unary/sfpu_split_includes.h"
#include "api/compute/tile_move_copy.h"
#include "transposed.h"

// pack packs count tiles of Dst, and passes on as many pages as a part can have.
static void pack(uint32_t cb, uint32_t count, uint32_t pages) {
    cb_reserve_back(cb, pages);
    for (uint32_t i = 0; i < count; i++) {
        pack_tile(i, cb);
    }
    cb_push_back(cb, pages);
}

// resume copies sums of the pass before to Dst.
static void resume(uint32_t count, uint32_t pages, uint32_t transpose_right) {
    cb_wait_front(kPartial, pages);
    copy_init(kPartial);
    for (uint32_t i = 0; i < count; i++) {
        copy_tile(kPartial, i, i);
    }
    cb_pop_front(kPartial, pages);
    mm_init_short(kLeft, kRight, transpose_right);
}

// turn_step turns the tiles of a step of the left operand, where sums are packed to kPartial or to kOut.
static void turn_step(uint32_t tiles, uint32_t pages, bool partial, uint32_t transpose_right) {
    const uint32_t format = partial ? reprise::cb_format(kPartial) : reprise::cb_format(kOut);
    begin_turns(format);
    cb_wait_front(kLeft, pages);
    cb_reserve_back(kTurned, pages);
    for (uint32_t first = 0; first < tiles; first += kTurn) {
        turn(tiles - first < kTurn ? tiles - first : kTurn, [&](uint32_t i) {
            UNPACK((reprise::unpack::tile_a(kLeft, first + i)));
            (void)i;
        });
    }
    cb_push_back(kTurned, pages);
    cb_pop_front(kLeft, pages);
    end_turns(format, transpose_right);
}

void kernel_main() {
    Blocks b = Blocks::read();
    const uint32_t left_pages = b.nominal_rows * b.step, right_pages = b.nominal_columns * b.step;
    const bool turned = TRANSPOSED && (b.flags & kTransposedLeft);
    const uint32_t transpose_right = TRANSPOSED && (b.flags & kTransposedRight), left = turned ? kTurned : kLeft;
    mm_init(kLeft, kRight, kOut, transpose_right);
    if (b.bias) {
        cb_wait_front(kConstant, 1);
    }
    for (uint32_t i = 0; i < b.turns(); i++) {
        b.turn(i);
        const bool one = b.rows <= b.sub_rows && b.columns <= b.sub_columns;
        if (b.bias) {
            cb_wait_front(kBias, b.nominal_columns);
        }
        for (uint32_t pass = 0; pass < b.passes; pass++) {
            const bool last = pass + 1 == b.passes;
            const uint32_t first = pass * b.pass_steps;
            uint32_t arrived = 0;
            if (!one && b.passes > 1 && (last || pass == 0)) {
                pack_reconfig_data_format(last ? kOut : kPartial);
            }
            b.each([&](uint32_t row, uint32_t column, uint32_t rows, uint32_t columns) {
                if (!one || pass == 0) {
                    tile_regs_acquire();
                }
                if (!one && pass > 0) {
                    resume(rows * columns, b.sub(), transpose_right);
                }
                for (uint32_t s = 0; s < b.pass_steps; s++) {
                    if (s == arrived) {
                        if (turned) {
                            const uint32_t depth = b.flags & kSkipProducts ? 0 : b.depth(first + s);
                            turn_step(b.rows * depth, left_pages, !one && !last, transpose_right);
                        }
                        arrived++;
                        cb_wait_front(left, arrived * left_pages);
                        cb_wait_front(kRight, arrived * right_pages);
                    }
                    const uint32_t depth = b.flags & kSkipProducts ? 0 : b.depth(first + s);
                    uint32_t l = s * left_pages + row * depth, r = s * right_pages + column;
                    for (uint32_t k = 0; k < depth; k++, l++, r += b.columns) {
                        matmul_block(left, kRight, l, r, 0, 0, columns, rows, depth);
                    }
                }
                if (last && b.bias) {
                    if (transpose_right || reprise::cb_format(kBias) != reprise::cb_format(kRight)) {
                        mm_init_short(kConstant, kBias);
                    }
                    matmul_block(kConstant, kBias, 0, column, 0, 0, columns, rows, 0);
                    if (transpose_right || reprise::cb_format(kBias) != reprise::cb_format(kRight)) {
                        mm_init_short(kLeft, kRight, transpose_right);
                    }
                }
                if (one && !last) {
                    return;
                }
#if defined(FUNCTION) && defined(TRISC_MATH)
                if (last) {
                    for (uint32_t i = 0; i < rows * columns; i++) {
                        FUNCTION(i);
                    }
                }
#endif
                tile_regs_commit();
                tile_regs_wait();
                pack(last ? kOut : kPartial, rows * columns, b.sub());
                tile_regs_release();
            });
            for (; turned && arrived < b.pass_steps; arrived++) {  // of a block without tiles
                turn_step(0, left_pages, false, transpose_right);
            }
            cb_wait_front(left, b.pass_steps * left_pages);
            cb_wait_front(kRight, b.pass_steps * right_pages);
            cb_pop_front(left, b.pass_steps * left_pages);
            cb_pop_front(kRight, b.pass_steps * right_pages);
        }
        if (b.bias) {
            cb_pop_front(kBias, b.nominal_columns);
        }
    }
}

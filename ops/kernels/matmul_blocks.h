// What the kernels of a product in blocks agree on: a core computes a block of the result, or several in turn. A row of cores
// shares tiles of the left operand, a column of cores those of the right one.
//
// The inner dimension is cut into steps, in which tiles arrive, and steps into passes, whose tiles are in L1 at once.
#pragma once
#include "blocks.h"
#include "reprise/arguments.h"
#include "reprise/kernel.h"

// Circular buffers after those of blocks.h: the row of the bias, sums between two passes.
constexpr uint32_t kBias = 4, kPartial = 5;

// Semaphores: receivers that have room for the next step, at its sender; steps that have been sent, at receivers.
constexpr uint32_t kReadyLeft = 0, kSentLeft = 1, kReadyRight = 2, kSentRight = 3;

// Flags: parts that are left out, when the others are measured, and operands that are transposed.
constexpr uint32_t kSkipReads = 1, kSkipProducts = 2, kSkipWrites = 4, kTransposedLeft = 8, kTransposedRight = 16;

struct Blocks {
    uint32_t nominal_rows, nominal_columns;  // of the largest block, for which circular buffers have room
    uint32_t inner;                          // tiles
    uint32_t step, pass_steps, passes;
    uint32_t sub_rows, sub_columns;  // of the part of a block that Dst has room for
    uint32_t bias;
    uint32_t flags;

    // The block of a turn: the matrix of the result, first row and column of tiles, rows and columns, which may be 0.
    uint32_t matrix, row, column, rows, columns;

    // All arguments are common ones, which a launch sends to all cores at once, and the same for all kernels: 0 tiles from a block's
    // row to the next one, 1 rows of the matrix, 2 and 3 the same of columns, 4 matrices, 5 whether a matrix of the result has
    // matrices of the operands of its own, then the members above; 16 and 17 the grid's first column and row of cores, 18 virtual x
    // of its first, second and last column, 6 bits each, 19 virtual y of the rows.
    static Blocks read() {
        Blocks b;
        b.nominal_rows = rp_common_arg(6), b.nominal_columns = rp_common_arg(7), b.inner = rp_common_arg(8);
        b.step = rp_common_arg(9), b.pass_steps = rp_common_arg(10), b.passes = rp_common_arg(11);
        b.sub_rows = rp_common_arg(12), b.sub_columns = rp_common_arg(13), b.bias = rp_common_arg(14), b.flags = rp_common_arg(15);
        return b;
    }
    static constexpr uint32_t kArgs = 20;  // how many these are

    // This core's place in the grid.
    static uint32_t x() { return get_absolute_logical_x() - rp_common_arg(16); }
    static uint32_t y() { return get_absolute_logical_y() - rp_common_arg(17); }

    // A core computes several blocks in turn: of each matrix those that begin at its row and column, and so many tiles from there.
    static uint32_t high() { return (rp_common_arg(1) + rp_common_arg(0) - 1) / rp_common_arg(0); }
    static uint32_t wide() { return (rp_common_arg(3) + rp_common_arg(2) - 1) / rp_common_arg(2); }
    uint32_t turns() const { return rp_common_arg(4) * high() * wide(); }
    bool matrices() const { return rp_common_arg(5) != 0; }
    void turn(uint32_t i) {
        const uint32_t w = wide(), h = high();
        matrix = i / (h * w);
        row = y() * nominal_rows + i / w % h * rp_common_arg(0);
        column = x() * nominal_columns + i % w * rp_common_arg(2);
        rows = left(row, rp_common_arg(1), nominal_rows);
        columns = left(column, rp_common_arg(3), nominal_columns);
    }
    static uint32_t left(uint32_t from, uint32_t end, uint32_t most) {
        return from >= end ? 0 : end - from < most ? end - from : most;
    }
    uint32_t steps() const { return (inner + step - 1) / step; }
    // all_steps includes empty ones, which fill the last pass.
    uint32_t all_steps() const { return passes * pass_steps; }
    // depth is the number of indices in a step: the last ones may have less, or none.
    uint32_t depth(uint32_t s) const {
        return left(s * step, inner, step);
    }
    uint32_t sub() const { return sub_rows * sub_columns; }

    // each calls f(row, column, rows, columns) for the parts of the block, which begin at a tile of it.
    template <class F>
    FORCE_INLINE void each(F f) const {
        for (uint32_t r = 0; r < rows; r += sub_rows) {
            const uint32_t high = rows - r < sub_rows ? rows - r : sub_rows;
            for (uint32_t c = 0; c < columns; c += sub_columns) {
                f(r, c, high, columns - c < sub_columns ? columns - c : sub_columns);
            }
        }
    }
};

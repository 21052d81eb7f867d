// What the kernels of a product in blocks agree on: a core computes a block of the result, by which a row of cores shares tiles of
// the left operand and a column of cores tiles of the right one.
//
// The inner dimension is cut into steps, in which tiles arrive, and steps into passes, whose tiles are in L1 at once. All kernels
// of a core have the same unique arguments.
#pragma once
#include "blocks.h"
#include "reprise/arguments.h"
#include "reprise/kernel.h"

// Circular buffers after those of blocks.h: the row of the bias, sums between two passes.
constexpr uint32_t kBias = 4, kPartial = 5;

// Semaphores: receivers that have room for the next step, at its sender; steps that have been sent, at receivers.
constexpr uint32_t kReadyLeft = 0, kSentLeft = 1, kReadyRight = 2, kSentRight = 3;

struct Blocks {
    uint32_t row, rows, column, columns;  // this core's block of tiles
    uint32_t nominal_rows, nominal_columns;  // of the largest block, for which circular buffers have room
    uint32_t matrices, inner;  // inner: tiles
    uint32_t step, pass_steps, passes;
    uint32_t sub_rows, sub_columns;  // of the part of the block that Dst has room for
    uint32_t bias;
    uint32_t at;  // of the first argument after these

    static Blocks read() {
        Blocks b;
        b.row = rp_arg(0), b.rows = rp_arg(1), b.column = rp_arg(2), b.columns = rp_arg(3);
        b.nominal_rows = rp_arg(4), b.nominal_columns = rp_arg(5);
        b.matrices = rp_arg(6), b.inner = rp_arg(7);
        b.step = rp_arg(8), b.pass_steps = rp_arg(9), b.passes = rp_arg(10);
        b.sub_rows = rp_arg(11), b.sub_columns = rp_arg(12), b.bias = rp_arg(13);
        b.at = 14;
        return b;
    }
    uint32_t steps() const { return (inner + step - 1) / step; }
    // all_steps includes empty ones, which fill the last pass.
    uint32_t all_steps() const { return passes * pass_steps; }
    // depth is the number of indices in a step: the last ones may have less, or none.
    uint32_t depth(uint32_t s) const {
        const uint32_t from = s * step;
        return from >= inner ? 0 : inner - from < step ? inner - from : step;
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

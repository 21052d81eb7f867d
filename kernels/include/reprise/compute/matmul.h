// Products of tiles by the matrix unit: Dst += SrcB x SrcA.
#pragma once

#include "reprise/compute/math.h"

namespace reprise {
namespace math {

// 16 instructions of eight rows are a phase. Their order is one that three steps of the counters make, and in which others come
// before Dst is used again, for which the unit would wait.
constexpr uint32_t matmul_b = 8;  // where SrcB's counter begins

#define RP_PRODUCT(dst, mode) RP_TTI(RP_OP_MVMUL(dst, mode, 0, 0))
// transpose is for a right operand whose faces have been transposed: its upper right one is then still at the place of the lower
// left one.
FORCE_INLINE void matmul_init(uint32_t left, uint32_t right, bool transpose) {
    formats_of(right, left);
    RP_ADDRESS_MODE(0, RP_STEP(0, 8), 0);
    if (transpose) {
        RP_ADDRESS_MODE(1, RP_STEP(0, 24), 0);
        RP_ADDRESS_MODE(2, RP_STEP(16, 24), 0);
        RP_ADDRESS_MODE(3, RP_STEP(16, 24), RP_MODE_FIDELITY(1));
        record<16>();
        RP_PRODUCT(8, 1); RP_PRODUCT(32, 0); RP_PRODUCT(40, 1); RP_PRODUCT(0, 2);
        RP_PRODUCT(8, 1); RP_PRODUCT(32, 0); RP_PRODUCT(40, 1); RP_PRODUCT(0, 2);
        RP_PRODUCT(56, 1); RP_PRODUCT(16, 0); RP_PRODUCT(24, 1); RP_PRODUCT(48, 2);
        RP_PRODUCT(56, 1); RP_PRODUCT(16, 0); RP_PRODUCT(24, 1); RP_PRODUCT(48, 3);
    } else {
        RP_ADDRESS_MODE(1, RP_STEP(16, 56), 0);
        RP_ADDRESS_MODE(2, RP_STEP(48, 24), 0);
        RP_ADDRESS_MODE(3, RP_STEP(16, 56), RP_MODE_FIDELITY(1));
        record<16>();
        RP_PRODUCT(8, 1); RP_PRODUCT(16, 0); RP_PRODUCT(24, 2); RP_PRODUCT(32, 0);
        RP_PRODUCT(40, 1); RP_PRODUCT(48, 0); RP_PRODUCT(56, 2); RP_PRODUCT(0, 2);
        RP_PRODUCT(24, 2); RP_PRODUCT(32, 0); RP_PRODUCT(40, 1); RP_PRODUCT(48, 0);
        RP_PRODUCT(56, 2); RP_PRODUCT(0, 0); RP_PRODUCT(8, 1); RP_PRODUCT(16, 3);
    }
    finish(matmul_b, 0);
}
#undef RP_PRODUCT

FORCE_INLINE void matmul(uint32_t dst, uint32_t sources = RP_SRCA | RP_SRCB) {
    tile(dst);
    for (uint32_t p = 0; p < phases; p++) {
        replay<16>();
    }
    finish(matmul_b, sources);
}
FORCE_INLINE void matmul_block(uint32_t dst, uint32_t columns, uint32_t rows) {
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t c = 1; c < columns; c++) {
            matmul(dst++, RP_SRCA);
        }
        matmul(dst++);
    }
}

}  // namespace math
}  // namespace reprise

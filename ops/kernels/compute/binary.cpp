// Sums, differences, products and quotients of the elements of tiles: of bf16 by the matrix unit, of fp32 and quotients by the vector
// unit, which has all bits of them. The reader is ../tile_reader.cpp.
//
// Arguments: 0 first tile of the result, 1 number of tiles, 2 operation, 3 the second operand's circular buffer: kRight, or kLeft
// for an operation on one tensor.

#include "../blocks.h"
#include "../operations.h"
#include "api/compute/eltwise_binary.h"
#include "api/compute/eltwise_binary_sfpu.h"

// run computes tiles with a function that leaves one in tile 0 of Dst.
template <typename F>
ALWI void run(uint32_t tiles, uint32_t right, F compute) {
    for (; tiles != 0; tiles--) {
        cb_wait_front(kLeft, 1);
        if (right != kLeft) {
            cb_wait_front(right, 1);
        }
        tile_regs_acquire();
        compute();
        tile_regs_commit();
        cb_pop_front(kLeft, 1);
        if (right != kLeft) {
            cb_pop_front(right, 1);
        }
        cb_reserve_back(kOut, 1);
        tile_regs_wait();
        pack_tile(0, kOut);
        tile_regs_release();
        cb_push_back(kOut, 1);
    }
}

template <EltwiseBinaryType op>
ALWI void of_bf16(uint32_t tiles, uint32_t right) {
    binary_tiles_init<op>(kLeft, kRight);
    run(tiles, right, [right] { binary_tiles<op>(kLeft, right, 0, 0, 0); });
}

template <typename F>
ALWI void by_vectors(uint32_t tiles, uint32_t right, F compute) {
    copy_tile_to_dst_init_short(kLeft);
    run(tiles, right, [right, compute] {
        copy_tile(kLeft, 0, 0);
        if (right == kLeft) {
            copy_tile(kLeft, 0, 1);
        } else {
            copy_tile(kRight, 0, 1);
        }
        compute();
    });
}

void kernel_main() {
    const uint32_t tiles = get_arg_val<uint32_t>(1), op = get_arg_val<uint32_t>(2), right = get_arg_val<uint32_t>(3);
    binary_op_init_common(kLeft, kRight, kOut);
    if (op == kDivide) {
        by_vectors(tiles, right, [] { div_binary_tile(0, 1, 0); });
        return;
    }
    if constexpr (reprise::to_dst(kLeft)) {
        if (op == kAdd) {
            by_vectors(tiles, right, [] { add_binary_tile(0, 1, 0); });
        } else if (op == kSubtract) {
            by_vectors(tiles, right, [] { sub_binary_tile(0, 1, 0); });
        } else {
            by_vectors(tiles, right, [] { mul_binary_tile(0, 1, 0); });
        }
    } else if (op == kAdd) {
        of_bf16<ELWADD>(tiles, right);
    } else if (op == kSubtract) {
        of_bf16<ELWSUB>(tiles, right);
    } else {
        of_bf16<ELWMUL>(tiles, right);
    }
}

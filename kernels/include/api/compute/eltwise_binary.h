// Sums, differences and products of the data of two tiles. A product is added to what is in Dst, which tile_regs_acquire clears.
#pragma once

#include "api/compute/common.h"
#include "api/compute/compute_kernel_hw_startup.h"
#include "api/compute/pack.h"
#include "reprise/compute/eltwise.h"

enum EltwiseBinaryType { ELWADD = reprise::op_add, ELWSUB = reprise::op_sub, ELWMUL = reprise::op_mul };
enum class EltwiseBinaryReuseDestType { NONE, DEST_TO_SRCA, DEST_TO_SRCB };

ALWI void binary_op_init_common(uint32_t cb_a, uint32_t cb_b, uint32_t out) { compute_kernel_hw_startup(cb_a, cb_b, out); }

// accumulate adds to what is in Dst; products always do.
template <EltwiseBinaryType op>
ALWI void binary_tiles_init(uint32_t cb_a, uint32_t cb_b, bool accumulate = false) {
    UNPACK((reprise::unpack::init(cb_a, cb_b)));
    MATH((reprise::math::eltwise_init<(reprise::operation)op, reprise::broadcast_none>(cb_a, cb_b, accumulate)));
    (void)cb_a, (void)cb_b, (void)accumulate;
}
ALWI void add_tiles_init(uint32_t cb_a, uint32_t cb_b, bool accumulate = false) { binary_tiles_init<ELWADD>(cb_a, cb_b, accumulate); }
ALWI void sub_tiles_init(uint32_t cb_a, uint32_t cb_b, bool accumulate = false) { binary_tiles_init<ELWSUB>(cb_a, cb_b, accumulate); }
ALWI void mul_tiles_init(uint32_t cb_a, uint32_t cb_b) { binary_tiles_init<ELWMUL>(cb_a, cb_b); }

template <EltwiseBinaryType op>
ALWI void binary_tiles(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    UNPACK((reprise::unpack::tiles(cb_a, tile_a, cb_b, tile_b)));
    MATH((reprise::math::eltwise<(reprise::operation)op>(dst)));
    (void)cb_a, (void)cb_b, (void)tile_a, (void)tile_b, (void)dst;
}
ALWI void add_tiles(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) { binary_tiles<ELWADD>(cb_a, cb_b, tile_a, tile_b, dst); }
ALWI void sub_tiles(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) { binary_tiles<ELWSUB>(cb_a, cb_b, tile_a, tile_b, dst); }
ALWI void mul_tiles(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) { binary_tiles<ELWMUL>(cb_a, cb_b, tile_a, tile_b, dst); }

// Tile dst of Dst and a tile of a circular buffer: the former is the left operand (DEST_TO_SRCA) or the right one. The result
// replaces it.
template <EltwiseBinaryType op = ELWADD, EltwiseBinaryReuseDestType reuse = EltwiseBinaryReuseDestType::NONE>
ALWI void binary_dest_reuse_tiles_init(uint32_t cb) {
    constexpr bool to_a = reuse == EltwiseBinaryReuseDestType::DEST_TO_SRCA;
    static_assert(reuse != EltwiseBinaryReuseDestType::NONE, "say which operand is in Dst");
    UNPACK((reprise::unpack::begin()));
    UNPACK((reprise::unpack::configure(to_a ? 1 : 0, reprise::cb_format(cb))));
    UNPACK((reprise::unpack::end()));
    MATH((reprise::math::reuse_init<(reprise::operation)op, to_a>(cb)));
    (void)cb, (void)to_a;
}
template <EltwiseBinaryType op = ELWADD, EltwiseBinaryReuseDestType reuse = EltwiseBinaryReuseDestType::NONE>
ALWI void binary_dest_reuse_tiles(uint32_t cb, uint32_t tile, uint32_t dst) {
#if defined(TRISC_UNPACK)
    if constexpr (reuse == EltwiseBinaryReuseDestType::DEST_TO_SRCA) {
        reprise::unpack::tile_b(cb, tile);
        reprise::unpack::empty<0>();
    } else {
        reprise::unpack::tile_a(cb, tile);
        reprise::unpack::empty<1>();
    }
#endif
    MATH((reprise::math::reuse<(reprise::operation)op, reuse == EltwiseBinaryReuseDestType::DEST_TO_SRCA>(dst)));
    (void)cb, (void)tile, (void)dst;
}

// Sums, differences and products of a tile and one of which a column, a row or one datum stands for all of it. The second operand
// is repeated: bcast_rows repeats its first row, bcast_cols its first column, bcast_scalar its first datum.
#pragma once

#include "api/compute/eltwise_binary.h"

enum class BroadcastType { NONE = reprise::broadcast_none, COL = reprise::broadcast_column, ROW = reprise::broadcast_row, SCALAR = reprise::broadcast_scalar };

template <EltwiseBinaryType op, BroadcastType from>
ALWI void any_tiles_bcast_init(uint32_t cb_a, uint32_t cb_b) {
    UNPACK((reprise::unpack::init(cb_a, cb_b)));
    MATH((reprise::math::eltwise_init<(reprise::operation)op, (reprise::broadcast)from>(cb_a, cb_b)));
    (void)cb_a, (void)cb_b;
}
template <EltwiseBinaryType op, BroadcastType from>
ALWI void any_tiles_bcast(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    binary_tiles<op>(cb_a, cb_b, tile_a, tile_b, dst);
}
// The same with formats of operands and result.
template <EltwiseBinaryType op, BroadcastType from>
ALWI void init_bcast(uint32_t cb_a, uint32_t cb_b, uint32_t out) {
    binary_op_init_common(cb_a, cb_b, out);
    any_tiles_bcast_init<op, from>(cb_a, cb_b);
}

template <BroadcastType from>
ALWI void add_tiles_bcast(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWADD, from>(cb_a, cb_b, tile_a, tile_b, dst);
}
ALWI void add_bcast_rows_init_short(uint32_t cb_a, uint32_t cb_b) { any_tiles_bcast_init<ELWADD, BroadcastType::ROW>(cb_a, cb_b); }
ALWI void add_bcast_cols_init_short(uint32_t cb_a, uint32_t cb_b) { any_tiles_bcast_init<ELWADD, BroadcastType::COL>(cb_a, cb_b); }
ALWI void add_bcast_scalar_init_short(uint32_t cb_a, uint32_t cb_b) { any_tiles_bcast_init<ELWADD, BroadcastType::SCALAR>(cb_a, cb_b); }
ALWI void add_tiles_bcast_rows(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWADD, BroadcastType::ROW>(cb_a, cb_b, tile_a, tile_b, dst);
}
ALWI void add_tiles_bcast_cols(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWADD, BroadcastType::COL>(cb_a, cb_b, tile_a, tile_b, dst);
}
ALWI void add_tiles_bcast_scalar(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWADD, BroadcastType::SCALAR>(cb_a, cb_b, tile_a, tile_b, dst);
}

template <BroadcastType from>
ALWI void sub_tiles_bcast(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWSUB, from>(cb_a, cb_b, tile_a, tile_b, dst);
}
ALWI void sub_bcast_rows_init_short(uint32_t cb_a, uint32_t cb_b) { any_tiles_bcast_init<ELWSUB, BroadcastType::ROW>(cb_a, cb_b); }
ALWI void sub_bcast_cols_init_short(uint32_t cb_a, uint32_t cb_b) { any_tiles_bcast_init<ELWSUB, BroadcastType::COL>(cb_a, cb_b); }
ALWI void sub_bcast_scalar_init_short(uint32_t cb_a, uint32_t cb_b) { any_tiles_bcast_init<ELWSUB, BroadcastType::SCALAR>(cb_a, cb_b); }
ALWI void sub_tiles_bcast_rows(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWSUB, BroadcastType::ROW>(cb_a, cb_b, tile_a, tile_b, dst);
}
ALWI void sub_tiles_bcast_cols(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWSUB, BroadcastType::COL>(cb_a, cb_b, tile_a, tile_b, dst);
}
ALWI void sub_tiles_bcast_scalar(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWSUB, BroadcastType::SCALAR>(cb_a, cb_b, tile_a, tile_b, dst);
}

template <BroadcastType from>
ALWI void mul_tiles_bcast(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWMUL, from>(cb_a, cb_b, tile_a, tile_b, dst);
}
ALWI void mul_bcast_rows_init_short(uint32_t cb_a, uint32_t cb_b) { any_tiles_bcast_init<ELWMUL, BroadcastType::ROW>(cb_a, cb_b); }
ALWI void mul_bcast_cols_init_short(uint32_t cb_a, uint32_t cb_b) { any_tiles_bcast_init<ELWMUL, BroadcastType::COL>(cb_a, cb_b); }
ALWI void mul_bcast_scalar_init_short(uint32_t cb_a, uint32_t cb_b) { any_tiles_bcast_init<ELWMUL, BroadcastType::SCALAR>(cb_a, cb_b); }
ALWI void mul_tiles_bcast_rows(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWMUL, BroadcastType::ROW>(cb_a, cb_b, tile_a, tile_b, dst);
}
ALWI void mul_tiles_bcast_cols(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWMUL, BroadcastType::COL>(cb_a, cb_b, tile_a, tile_b, dst);
}
ALWI void mul_tiles_bcast_scalar(uint32_t cb_a, uint32_t cb_b, uint32_t tile_a, uint32_t tile_b, uint32_t dst) {
    any_tiles_bcast<ELWMUL, BroadcastType::SCALAR>(cb_a, cb_b, tile_a, tile_b, dst);
}

// Other names of them.
ALWI void add_tiles_bcast_scalar_init_short(uint32_t cb_a, uint32_t cb_b) { add_bcast_scalar_init_short(cb_a, cb_b); }
ALWI void sub_tiles_bcast_scalar_init_short(uint32_t cb_a, uint32_t cb_b) { sub_bcast_scalar_init_short(cb_a, cb_b); }
ALWI void mul_tiles_bcast_scalar_init_short(uint32_t cb_a, uint32_t cb_b) { mul_bcast_scalar_init_short(cb_a, cb_b); }

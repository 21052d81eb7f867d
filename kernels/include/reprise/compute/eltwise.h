// Sums, differences and products of the data of two tiles, copies, and both with an operand that is in Dst already.
#pragma once

#include "reprise/compute/math.h"

namespace reprise {

enum operation { op_add, op_sub, op_mul };
// What of SrcB stands for all of it: the numbers are those of the instructions.
enum broadcast { broadcast_none = 0, broadcast_column = 1, broadcast_row = 2, broadcast_scalar = 3 };

namespace math {

// Eight instructions of eight rows are a phase. SrcB's counter passes over the faces that a broadcast needs.
template <operation op, broadcast from>
FORCE_INLINE void eltwise_modes() {
    constexpr uint32_t last = op == op_mul ? RP_MODE_FIDELITY(1) : 0;
    constexpr uint32_t step = from == broadcast_none || from == broadcast_column ? 8 : 0;
    constexpr uint32_t again = from == broadcast_column ? 56 : 16;  // the same face; the next one of the two above
    constexpr uint32_t below = from == broadcast_column ? 24 : 48;
    RP_ADDRESS_MODE(0, RP_STEP(8, step), 0);
    if constexpr (from == broadcast_column || from == broadcast_row) {
        RP_ADDRESS_MODE(1, RP_STEP(8, again), 0);
        RP_ADDRESS_MODE(2, RP_STEP(8, below), 0);
        RP_ADDRESS_MODE(3, RP_STEP(8, below), last);
    } else {
        RP_ADDRESS_MODE(3, RP_STEP(8, step), last);
    }
}
template <operation op, broadcast from>
FORCE_INLINE void eltwise_record(bool accumulate) {
    constexpr uint32_t one = from == broadcast_column || from == broadcast_row ? 1 : 0, two = 2 * one;
#define RP_EIGHT(dst, mode)                                                  \
    if constexpr (op == op_mul) {                                            \
        RP_TTI(RP_OP_ELWMUL(dst, mode, from, 0, 0));                         \
    } else if (accumulate) {                                                 \
        if constexpr (op == op_add) RP_TTI(RP_OP_ELWADD(dst, mode, from, 1, 0)); \
        else RP_TTI(RP_OP_ELWSUB(dst, mode, from, 1, 0));                    \
    } else {                                                                 \
        if constexpr (op == op_add) RP_TTI(RP_OP_ELWADD(dst, mode, from, 0, 0)); \
        else RP_TTI(RP_OP_ELWSUB(dst, mode, from, 0, 0));                    \
    }
    record<8>();
    RP_EIGHT(0, 0) RP_EIGHT(8, one) RP_EIGHT(16, 0) RP_EIGHT(24, two)
    RP_EIGHT(32, 0) RP_EIGHT(40, one) RP_EIGHT(48, 0) RP_EIGHT(56, 3)
#undef RP_EIGHT
}
template <operation op, broadcast from>
FORCE_INLINE void eltwise_init(uint32_t cb_a, uint32_t cb_b, bool accumulate = false) {
    formats_of(cb_a, cb_b);
    eltwise_modes<op, from>();
    eltwise_record<op, from>(accumulate);
    finish(0, 0);
}
template <operation op>
FORCE_INLINE void eltwise(uint32_t dst) {
    tile(dst);
    for (uint32_t p = 0; p < (op == op_mul ? phases : 1); p++) {
        replay<8>();
    }
    finish(0, RP_SRCA | RP_SRCB);
}

// Copies SrcA to Dst; transpose also exchanges the upper right and the lower left face. A Dst of 32 bits takes all 19 bits of
// SrcA.
FORCE_INLINE void copy_init(uint32_t cb, bool transpose = false) {
    const uint32_t format = wide_dst ? (uint32_t)RP_TF32 : source_format(cb_format(cb));
    formats(format, format);
    RP_ADDRESS_MODE(0, 0, 0);
    record<8>();
#define RP_EIGHT(dst, src) RP_TTI(RP_OP_MOVA2D(dst, 2, 0, src, 0))
    RP_EIGHT(0, 0); RP_EIGHT(8, 8);
    if (transpose) {
        RP_EIGHT(32, 16); RP_EIGHT(40, 24); RP_EIGHT(16, 32); RP_EIGHT(24, 40);
    } else {
        RP_EIGHT(16, 16); RP_EIGHT(24, 24); RP_EIGHT(32, 32); RP_EIGHT(40, 40);
    }
    RP_EIGHT(48, 48); RP_EIGHT(56, 56);
#undef RP_EIGHT
    finish(0, 0);
}
FORCE_INLINE void copy(uint32_t dst) {
    tile(dst);
    replay<8>();
    finish(0, RP_SRCA);
}
// Lets the unpack thread write to Dst, and waits for it.
FORCE_INLINE void copy_directly() {
    RP_STALLWAIT(RP_STALL_SYNC, RP_WAIT_MATH | RP_WAIT_SFPU);
    RP_SEM_POST(sem_dst_free);
    RP_SEM_WAIT(sem_unpacked, RP_SEM_WHILE_ZERO, RP_STALL_MATH | RP_STALL_SFPU | RP_STALL_SYNC);
    RP_SEM_GET(sem_unpacked);
}

// Clears a tile of Dst, where address mode 1 moves nothing. Wormhole counts 16 rows from the beginning of Dst, Blackhole from that of the half.
FORCE_INLINE void clear(uint32_t dst) {
#if defined(REPRISE_WORMHOLE)
    const uint32_t blocks = wide_dst ? 8 : 4, first = half / 16 + dst * blocks;
    for (uint32_t i = 0; i < blocks; i++) {
        tt(RP_OP_ZEROACC(0, 1, RP_CLEAR_16, 0, 0) | (first + i));
    }
#else
    for (uint32_t i = 0; i < 4; i++) {
        tt(RP_OP_ZEROACC(0, 1, RP_CLEAR_16, 0, wide_dst) | (4 * dst + i));
    }
#endif
}

// An operation on a tile of Dst, which becomes SrcA or SrcB, and one that has been unpacked to the other.
template <operation op, bool to_a>
FORCE_INLINE void reuse_init(uint32_t cb) {
    const uint32_t format = source_format(cb_format(cb)), own = wide_dst ? (uint32_t)RP_TF32 : (uint32_t)RP_BF16;
    // Moves go by the format of SrcA, in both directions.
    formats(to_a ? own : wide_dst ? own : format, to_a ? format : own);
    eltwise_modes<op, broadcast_none>();
    RP_ADDRESS_MODE(1, 0, 0);
    eltwise_record<op, broadcast_none>(false);
    finish(0, 0);
}
template <operation op, bool to_a>
FORCE_INLINE void reuse(uint32_t dst) {
    tile(dst);
    RP_STALLWAIT(RP_STALL_MATH, RP_WAIT_SFPU);
    // What the unpack thread has made valid is this thread's to fill.
    RP_STALLWAIT(RP_STALL_MATH, to_a ? RP_WAIT_SRCA_VALID : RP_WAIT_SRCB_VALID);
#define RP_FOUR(i)                                   \
    if constexpr (to_a) RP_TTI(RP_OP_MOVD2A(i, 2, 1, i, 0)); \
    else RP_TTI(RP_OP_MOVD2B(i, 2, 1, i, 0));
    RP_FOUR(0) RP_FOUR(4) RP_FOUR(8) RP_FOUR(12) RP_FOUR(16) RP_FOUR(20) RP_FOUR(24) RP_FOUR(28)
    RP_FOUR(32) RP_FOUR(36) RP_FOUR(40) RP_FOUR(44) RP_FOUR(48) RP_FOUR(52) RP_FOUR(56) RP_FOUR(60)
#undef RP_FOUR
    if constexpr (op == op_mul) {
        clear(dst);
    }
    for (uint32_t p = 0; p < (op == op_mul ? phases : 1); p++) {
        replay<8>();
    }
    finish(0, RP_SRCA | RP_SRCB);
}

}  // namespace math

namespace unpack {

// A tile to Dst, without a source register. The address in Dst is in data, after 64 that don't exist.
constexpr uint32_t gpr_dst = 6;
FORCE_INLINE void direct_init(uint32_t cb) {
    begin();
    configure(0, cb_format(cb));
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_OUT_FORMAT(0)), cb_format(cb) | 2u << RP_FIELD_SHIFT(RP_CFG_UNPACK_THROTTLE(0)));
    end();
}
// Around UNPACRs that go to a tile of Dst, which the math thread has let this one write to.
FORCE_INLINE void begin_directly(uint32_t dst) {
    const uint32_t at = (half + dst * tile_rows) * 16 + 64;
    set_gpr(gpr_dst, at << 16 | at);
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_THCON | RP_WAIT_UNPACK);
    RP_TTI(RP_OP_WRCFG(RP_FIELD_WORD(RP_CFG_UNPACK_DST(0)), 0, gpr_dst));
    RP_TTI(RP_OP_RMWCIB0(RP_FIELD_WORD(RP_CFG_UNPACK_TO_DST_CONTEXT(0)), 0x30, 0x30));
    RP_THREAD_SET(RP_THREAD_SRC_A_SET_BY_ADDRESS, 0);
    RP_SEM_WAIT(sem_dst_free, RP_SEM_WHILE_ZERO, RP_STALL_UNPACK | RP_STALL_SYNC);
    RP_SEM_GET(sem_dst_free);
}
FORCE_INLINE void end_directly() {
    RP_STALLWAIT(RP_STALL_SYNC | RP_STALL_CFG, RP_WAIT_UNPACK0);
    RP_SEM_POST(sem_unpacked);
    set_gpr(gpr_dst, 0x00400040);
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_THCON | RP_WAIT_UNPACK0);
    RP_TTI(RP_OP_WRCFG(RP_FIELD_WORD(RP_CFG_UNPACK_DST(0)), 0, gpr_dst));
    RP_TTI(RP_OP_RMWCIB0(RP_FIELD_WORD(RP_CFG_UNPACK_TO_DST_CONTEXT(0)), 0, 0x30));
    RP_THREAD_SET(RP_THREAD_SRC_A_SET_BY_ADDRESS, 4);
}
FORCE_INLINE void tile_directly(uint32_t cb, uint32_t tile, uint32_t dst) {
    use_a(tile_address(cb, tile));
    begin_directly(dst);
    RP_TTI(unpacr(0, 0));
    end_directly();
}

}  // namespace unpack
}  // namespace reprise

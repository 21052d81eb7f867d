// The math thread: the matrix unit computes tiles of Dst from a tile in SrcA and one in SrcB. Operands of a product stand the
// other way around: SrcB is on the left.
//
// Instructions name their rows of Dst themselves; the counters of SrcA and SrcB move by address modes 0 to 3, modulo 64, and
// return to where they began with the last instruction of a phase, which also counts the phase. Each operation's init sets
// its modes and records its instructions at 0 to 15 of the replay buffer. Mode 7 moves nothing.
#pragma once

#include "reprise/compute/config.h"

namespace reprise {
namespace math {

// The address mode that moves nothing. On Wormhole it is reached with the modes' bias set.
constexpr uint32_t still = RP_ADDRESS_MODES - 1;

#define RP_STEP(a, b) (RP_MODE_A(a) | RP_MODE_B(b))

// A byte of configuration word 1, which all threads change.
FORCE_INLINE void formats(uint32_t a, uint32_t b) {
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_MATH | RP_WAIT_SFPU);
    RP_CFG_LOCK();
    tt(RP_OP_RMWCIB2(1, 0, 0xFE) | ((a << 1 | b << 5) & 0xFFu) << 8);
    tt(RP_OP_RMWCIB3(1, 0, 0x01) | (b >> 3 & 1u) << 8);
    RP_CFG_UNLOCK();
}

// What stays the same as long as the kernel runs.
FORCE_INLINE void start() {
    RP_SEM_INIT(sem_dst, 0, 2);
    RP_SEM_INIT(sem_unpacked, 0, 1);
    RP_SEM_INIT(sem_dst_free, 0, 1);
    RP_THREAD_SET(RP_THREAD_STATE_ID, 0);
    RP_THREAD_SET(RP_THREAD_DST_OFFSET, 0);
    RP_THREAD_SET(RP_THREAD_KEEP_SRC_VALID(0), 0);
#if defined(REPRISE_WORMHOLE)
    RP_THREAD_SET(RP_THREAD_MODE_BIAS, 0);
    RP_THREAD_SET(RP_THREAD_FIDELITY_BASE, 0);
#else
    RP_THREAD_SET(RP_THREAD_EXPLICIT_SRC_A, 1);
    RP_THREAD_SET(RP_THREAD_EXPLICIT_SRC_B, 1);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_DST_SWIZZLE), 0);
#endif
    rp_cfg_store(0, 0);  // no format overrides the configured ones
    RP_STALLWAIT(RP_STALL_MATH | RP_STALL_CFG | RP_STALL_SFPU, RP_WAIT_STORES);
    RP_ADDRESS_MODE(7, 0, 0);
    RP_CFG_LOCK();
    RP_TTI(RP_OP_RMWCIB0(1, 0, 0xFF));  // no random rounding
    RP_TTI(RP_OP_RMWCIB1(1, 0, 0xFF));
    RP_TTI(RP_OP_RMWCIB2(1, 0, 0x01));
    RP_TTI(RP_OP_RMWCIB3(1, wide_dst ? 0x60 : 0, 0xE0));
    RP_TTI(RP_OP_RMWCIB0(2, 0, 0x01));
    RP_CFG_UNLOCK();
    RP_TTI(RP_OP_SETRWC(RP_RWC_ALL, 0, 0, 0, 0, 0));
    half = 0;
}

// Waits for a half of Dst that the pack thread has emptied, and clears it.
FORCE_INLINE void acquire() {
    RP_SEM_WAIT(sem_dst, RP_SEM_WHILE_MAX, RP_STALL_MATH | RP_STALL_SFPU | RP_STALL_SYNC);
    tt(RP_OP_ZEROACC(half != 0 ? 1u : 0u, 0, RP_CLEAR_HALF, 0, 0));
}
FORCE_INLINE void commit() {
    RP_STALLWAIT(RP_STALL_SYNC, RP_WAIT_MATH | RP_WAIT_SFPU);
    RP_SEM_POST(sem_dst);
    half ^= half_rows;
}

// Chooses the tile of Dst that instructions name rows of.
FORCE_INLINE void tile(uint32_t dst) {
    tt(RP_OP_SETC16(0, RP_FIELD_WORD(RP_THREAD_DST_OFFSET)) | (half + dst * tile_rows));
}

// Runs what an init has recorded.
template <uint32_t n>
FORCE_INLINE void replay() {
    RP_TTI(RP_OP_REPLAY(0, 0, n, 0));
}
template <uint32_t n>
FORCE_INLINE void record() {
    RP_TTI(RP_OP_REPLAY(1, 0, n, 0));
}

// --- products ----------------------------------------------------------------------------------------------------
// 16 instructions of eight rows are a phase. Their order is one that three steps of the counters make, and in which five
// others come before Dst is used again, for which the unit would wait.
constexpr uint32_t matmul_b = 8;  // where SrcB's counter begins
FORCE_INLINE void matmul_init(uint32_t left, uint32_t right) {
    formats(source_format(cb_format(right)), source_format(cb_format(left)));
    RP_ADDRESS_MODE(0, RP_STEP(0, 8), 0);
    RP_ADDRESS_MODE(1, RP_STEP(16, 56), 0);
    RP_ADDRESS_MODE(2, RP_STEP(48, 24), 0);
    RP_ADDRESS_MODE(3, RP_STEP(16, 56), RP_MODE_FIDELITY(1));
    record<16>();
#define RP_PRODUCT(dst, mode) RP_TTI(RP_OP_MVMUL(dst, mode, 0, 0))
    RP_PRODUCT(8, 1); RP_PRODUCT(16, 0); RP_PRODUCT(24, 2); RP_PRODUCT(32, 0);
    RP_PRODUCT(40, 1); RP_PRODUCT(48, 0); RP_PRODUCT(56, 2); RP_PRODUCT(0, 2);
    RP_PRODUCT(24, 2); RP_PRODUCT(32, 0); RP_PRODUCT(40, 1); RP_PRODUCT(48, 0);
    RP_PRODUCT(56, 2); RP_PRODUCT(0, 0); RP_PRODUCT(8, 1); RP_PRODUCT(16, 3);
#undef RP_PRODUCT
    RP_TTI(RP_OP_SETRWC(RP_RWC_ALL, 0, matmul_b, 0, 0, 0));
}
// The counters begin anew, and banks are free again.
FORCE_INLINE void finish(uint32_t b, uint32_t sources) { tt(RP_OP_SETRWC(RP_RWC_ALL, 0, b, 0, 0, sources)); }

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

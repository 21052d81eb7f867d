// The math thread: the matrix unit computes tiles of Dst from a tile in SrcA and one in SrcB. Operands of a product stand the
// other way around: SrcB is on the left.
//
// Instructions name their rows of Dst themselves; the counters of SrcA and SrcB move by address modes 0 to 3, modulo 64, and
// return to where they began with the last instruction of a phase, which also counts the phase. Each operation's init sets
// its modes and records its instructions in the replay buffer. Modes 6 and 7 are the vector unit's.
#pragma once

#include "reprise/compute/config.h"

namespace reprise {
namespace math {

#define RP_STEP(a, b) (RP_MODE_A(a) | RP_MODE_B(b))

// Formats of the sources, in configuration words 1 and 2, which all threads change. Integers of 16 bits look like denormal numbers
// to moves, which are zero otherwise.
FORCE_INLINE void formats(uint32_t a, uint32_t b) {
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_MATH | RP_WAIT_SFPU);
    RP_CFG_LOCK();
    tt(RP_OP_RMWCIB2(1, 0, 0xFE) | ((a << 1 | b << 5) & 0xFFu) << 8);
    tt(RP_OP_RMWCIB3(1, 0, 0x01) | (b >> 3 & 1u) << 8);
    tt(RP_OP_RMWCIB0(2, 0, 0x01) | (uint32_t)(a == RP_UINT16) << 8);
    if constexpr (any_int8()) {
        tt(RP_OP_RMWCIB3(1, 0, 0x80) | (uint32_t)(a == RP_INT8) << 15);
    }
    RP_CFG_UNLOCK();
}
FORCE_INLINE void format_a(uint32_t a) {
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_MATH | RP_WAIT_SFPU);
    tt(RP_OP_RMWCIB2(1, 0, 0x1E) | a << 1 << 8);
}
FORCE_INLINE void format_b(uint32_t b) {
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_MATH | RP_WAIT_SFPU);
    RP_CFG_LOCK();
    tt(RP_OP_RMWCIB2(1, 0, 0xE0) | (b << 5 & 0xFFu) << 8);
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
    RP_ADDRESS_MODE(6, 0, RP_MODE_DST(2));
    RP_CFG_LOCK();
    RP_TTI(RP_OP_RMWCIB0(1, 0, 0xFF));  // no random rounding
    RP_TTI(RP_OP_RMWCIB1(1, 0, 0xFF));
    RP_TTI(RP_OP_RMWCIB2(1, 0, 0x01));
    RP_TTI(RP_OP_RMWCIB3(1, wide_dst ? 0x60 : 0, 0xE0));
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

// The counters begin anew, and banks are free again.
FORCE_INLINE void finish(uint32_t b, uint32_t sources) { tt(RP_OP_SETRWC(RP_RWC_ALL, 0, b, 0, 0, sources)); }

FORCE_INLINE void formats_of(uint32_t cb_a, uint32_t cb_b) {
    formats(source_format(cb_format(cb_a)), source_format(cb_format(cb_b)));
}

}  // namespace math
}  // namespace reprise

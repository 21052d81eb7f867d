// Products of transposed tiles. The unpacker turns tiles of a right operand on their way to SrcA; those of a left one, which go to SrcB,
// take a way through Dst to kTurned.
#pragma once

#include "api/compute/matmul.h"
#include "api/compute/transpose_wh.h"

#if !defined(TRANSPOSED)
#define TRANSPOSED 0
#endif

// kTurned is the circular buffer of turned tiles of the left operand, of the same format. kTurn is how many are turned at once: a half of
// Dst has room for them.
constexpr uint32_t kTurned = 7, kTurn = 4;

// begin_turns makes turning tiles of kLeft what the next calls compute, in a kernel that packs in a format.
ALWI void begin_turns(uint32_t format) {
    transpose_wh_init_short(kLeft);
    if (format != reprise::cb_format(kTurned)) {
        pack_reconfig_data_format(kTurned);
    }
}
// turn turns up to kTurn tiles to reserved pages of kTurned. The sums in the half of Dst that the math thread has acquired stay: the
// other half is used, when the pack thread has emptied it. take(i) unpacks tile i.
template <typename F>
ALWI void turn(uint32_t tiles, F take) {
#if defined(TRISC_UNPACK)
    for (uint32_t i = 0; i < tiles; i++) {
        take(i);
    }
#elif defined(TRISC_MATH)
    rp_tensix_sync();  // the semaphore counts what this thread has committed
    RP_WAIT("SEMT", reprise::sem_dst, rp_sem_value(reprise::sem_dst) == 0);
    reprise::half ^= reprise::half_rows;
    for (uint32_t i = 0; i < tiles; i++) {
        reprise::math::copy(i);
    }
    reprise::math::commit();
#else
    reprise::half ^= reprise::half_rows;
    reprise::pack::choose_half();
    reprise::pack::wait();
    for (uint32_t i = 0; i < tiles; i++) {
        pack_tile(i, kTurned);
    }
    reprise::pack::release();
#endif
    (void)tiles, (void)take;
}
// end_turns makes products of kTurned and kRight what the next calls compute.
ALWI void end_turns(uint32_t format, uint32_t transpose_right) {
    if (format != reprise::cb_format(kTurned)) {
        PACK((reprise::pack::configure(format)));
    }
    mm_init_short(kTurned, kRight, transpose_right);
}

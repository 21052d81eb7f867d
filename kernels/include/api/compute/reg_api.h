// Dst between the math thread, which fills a half of it, and the pack thread, which empties it: acquire, compute, commit; wait,
// pack, release. A half has 8 tiles of 16-bit data or 4 of 32-bit data, which acquire clears.
#pragma once

#include "api/compute/common_globals.h"

ALWI void tile_regs_acquire() { MATH((reprise::math::acquire())); }
ALWI void tile_regs_commit() {
    UNPACK((reprise::half ^= reprise::half_rows));
    MATH((reprise::math::commit()));
}
ALWI void tile_regs_wait() { PACK((reprise::pack::wait())); }
ALWI void tile_regs_release() { PACK((reprise::pack::release())); }

// Both threads' part at once, as earlier kernels have it.
ALWI void acquire_dst() {
    tile_regs_acquire();
    tile_regs_wait();
}
ALWI void release_dst() {
    tile_regs_commit();
    tile_regs_release();
}

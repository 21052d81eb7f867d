// Integers of 32 bits in a wide Dst: two's complement in tensors, sign and magnitude for the vector unit's casts.
#pragma once

#include "../blocks.h"
#include "api/compute/eltwise_unary/sfpu_split_includes.h"
#include "api/compute/eltwise_unary/typecast.h"

#if defined(TRISC_MATH)
namespace integers {

using namespace reprise::sfpu;

// L0 = the fp32 nearest to an integer of Dst. Clobbers L1.
FORCE_INLINE void load_float() {
    load<RP_SFPU_INT32>(l0);
    mov(l1, l0);
    where_negative(l1);
    isub(l0, zero);
    all();
    where_negative(l0);  // 2^31
    loadi(l0, 0x7FFFFFFF);
    all();
    copysign(l1, l0);
    RP_TTI(RP_OP_SFPCAST(0, l0, l1));
}
// Stores L0, which has sign and magnitude. Clobbers L1.
FORCE_INLINE void store_integer() {
    mov(l1, l0);
    where_negative(l1);
    RP_TTI(RP_OP_SFPSETSGN(1, l0, l0, 0));
    isub(l0, zero);
    all();
    store_exact<RP_SFPU_INT32>(l0);
}

}  // namespace integers
#endif

// each_tile computes tiles one by one with a function that finds and leaves them in tile 0 of Dst.
template <typename F>
ALWI void each_tile(F compute) {
    init_sfpu(kLeft, kOut);
    for (uint32_t tiles = get_arg_val<uint32_t>(1); tiles != 0; tiles--) {
        cb_wait_front(kLeft, 1);
        tile_regs_acquire();
        copy_tile(kLeft, 0, 0);
        compute();
        tile_regs_commit();
        cb_pop_front(kLeft, 1);
        cb_reserve_back(kOut, 1);
        tile_regs_wait();
        pack_tile(0, kOut);
        tile_regs_release();
        cb_push_back(kOut, 1);
    }
}

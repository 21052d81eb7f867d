// Uses each kind of macro of reprise/tensix.h. It is compiled as C and as C++, and never runs.

#include "reprise/tensix.h"

static const uint32_t words[] = {RP_OP_MVMUL(8, 1, 0, RP_SRCA | RP_SRCB), RP_OP_SEMPOST(RP_SEM(1)), RP_OP_NOP};

#if defined(REPRISE_WORMHOLE)
#define WORD(wormhole, blackhole) wormhole
#else
#define WORD(wormhole, blackhole) blackhole
#endif
RP_STATIC_ASSERT(RP_OP_MVMUL(8, 1, 0, 3) == WORD(0x26C08008u, 0x26C04008u), "address mode");
RP_STATIC_ASSERT(RP_OP_STALLWAIT(RP_WAIT_STORES, RP_STALL_UNPACK) == WORD(0xA2042000u, 0xA2040400u), "conditions and blocks");
RP_STATIC_ASSERT(RP_OP_SFPLOAD(0, 3, RP_SFPU_BF16, 1) == WORD(0x7012C000u, 0x70126000u), "vector unit");
RP_STATIC_ASSERT(RP_FIELD_WORD(RP_CFG_PACK_OUT(0)) == WORD(57u, 69u), "a field's word");
RP_STATIC_ASSERT(RP_FIELD_WORD(RP_CFG_UNPACK_BASE(2)) == WORD(104u, 124u), "an array's word");
RP_STATIC_ASSERT(RP_FIELD_WORD(RP_THREAD_MODE_SRC_B_CLEAR(3)) == WORD(13u, 15u), "an even array's word");
RP_STATIC_ASSERT(RP_FIELD_MASK(RP_CFG_DST_FORMAT) == 0x1E000000u, "a field's bits");
RP_STATIC_ASSERT(RP_MODE_B(8) == 0x800u && RP_MODE_DST_CARRY == 0x400u, "address modes");

void kernel_main(void) {
    uint32_t n = rp_arg(0);
    for (uint32_t i = 0; i < n; i++) {
        rp_tensix_push(words[i % 3]);
    }
    rp_tensix_push(RP_OP_SETDMAREG(2 * n, 0, n, 0));
    RP_TTI(RP_OP_MVMUL(8, 1, 0, RP_SRCA | RP_SRCB));
    RP_TTI(RP_OP_PACR(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    RP_ADDRESS_MODE(0, RP_MODE_A(8) | RP_MODE_B(8) | RP_MODE_B_CARRY, RP_MODE_DST(8) | RP_MODE_FIDELITY(1));
    RP_PACK_MODE(1, RP_FIELD(RP_THREAD_PACK_MODE_Y_SRC_INCREMENT(0), 4));
    RP_CFG_LOCK();
    RP_CFG_RMW(RP_CFG_SRC_A_FORMAT, RP_BF16);
    RP_CFG_RMW(RP_CFG_RELU_THRESHOLD, 0x123);
    RP_CFG_UNLOCK();
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_BASE(2)), rp_tensix_address(rp_cb_read_ptr(0)));
    rp_cfg_set(RP_CFG_PACK_OUT_FORMAT(0), n);
    for (uint32_t i = 0; i < 2; i++) {
        rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_DESCRIPTOR(i)), RP_FIELD(RP_CFG_UNPACK_OUT_FORMAT(i), n));
    }
    RP_GPR_SET(3, 0x12345678u);
    rp_gpr_store(4, rp_gpr_load(3));
    RP_SEM_INIT(1, 0, 2);
    RP_SEM_WAIT(1, RP_SEM_WHILE_ZERO, RP_STALL_ALL);
    RP_STALLWAIT(RP_STALL_SYNC, RP_WAIT_MATH | RP_WAIT_SFPU);
    RP_SEM_GET(1);
    rp_sem_post(2);
    RP_SFPU_LOADI(1, 0x3F812345u);
    RP_TTI(RP_OP_SFPMAD(0, 3, 2, RP_LREG_ONE, 0));
    RP_SFPU_SETTLE();
    rp_mop_loops(2, 4, RP_OP_NOP, RP_OP_MVMUL(0, 0, 0, 0), RP_OP_NOP, RP_OP_NOP, RP_OP_NOP, RP_OP_MVMUL(0, 0, 0, 0),
                 RP_OP_MVMUL(0, 0, 0, 3));
    RP_TTI(RP_OP_MOP(1, 0, 0));
    rp_mop_sync();
    rp_tensix_sync();
}

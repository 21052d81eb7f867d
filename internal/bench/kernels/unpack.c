// Unpacks tiles of bf16 to SrcA and SrcB, or to SrcA alone: see tile.h. The right operand of a product is in SrcA.

#include "tile.h"

#define CFG(field, value) rp_cfg_store(RP_FIELD_WORD(field), value)
#define UNPACR(unit) RP_TTI(RP_OP_UNPACR(1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, unit, 0))

enum { UNCOMPRESSED = 0x10, CONTEXTS_UNCOMPRESSED = 0x000F000F };

static void configure(void) {
    RP_CFG_LOCK();
    RP_CFG_RMW(RP_CFG_SRC_A_FORMAT, RP_BF16);
    RP_CFG_RMW(RP_CFG_SRC_B_FORMAT, RP_BF16);
    RP_CFG_RMW(RP_CFG_FP32_DST, 0);
    RP_CFG_RMW(RP_CFG_FP32_SFPU, 0);
    RP_CFG_RMW(RP_CFG_INT8_MATH, 0);
    RP_CFG_UNLOCK();
    uint32_t right = operation() == MATMUL ? 3 : 2;
    CFG(RP_CFG_UNPACK_DESCRIPTOR(0), UNCOMPRESSED | RP_BF16);
    CFG(RP_CFG_UNPACK_DESCRIPTOR(1), 256u << 16 | UNCOMPRESSED | RP_BF16);  // X 256
    CFG(RP_CFG_UNPACK_DESCRIPTOR1(0), 4u << 16 | 1);                         // Z 4, Y 1
    CFG(RP_CFG_UNPACK_DESCRIPTOR1(1), 4u << 16 | 1);
    CFG(RP_CFG_UNPACK_OUT_FORMAT(0), RP_FIELD(RP_CFG_UNPACK_THROTTLE(0), 2) | RP_BF16);
    CFG(RP_CFG_UNPACK_OUT_FORMAT(1), RP_FIELD(RP_CFG_UNPACK_THROTTLE(1), 2) | RP_BF16);
    CFG(RP_CFG_UNPACK_UNCOMPRESSED(0), CONTEXTS_UNCOMPRESSED);
    CFG(RP_CFG_UNPACK_UNCOMPRESSED(2), CONTEXTS_UNCOMPRESSED);
    CFG(RP_CFG_UNPACK_DST(0), 64u << 16 | 64);
    CFG(RP_CFG_UNPACK_X_DIM(0), 256u << 16 | 256);
    CFG(RP_CFG_UNPACK_ADD_DST, RP_FIELD(RP_CFG_UNPACK_ADD_DST, 1));
    CFG(RP_CFG_UNPACK_BASE(0), rp_tensix_address(rp_arg(right)));
    CFG(RP_CFG_UNPACK_BASE(2), rp_tensix_address(rp_arg(5 - right)));
    RP_THREAD_SET(RP_THREAD_SRC_A_SET_BY_ADDRESS, RP_FIELD(RP_THREAD_SRC_A_SET_BY_ADDRESS, 1));
    RP_THREAD_SET(RP_THREAD_UNPACK_CONTEXT(0), 0);
    RP_TTI(RP_OP_SETADCXX(0, 1023, RP_ADC_UNPACK0 | RP_ADC_UNPACK1));
    RP_TTI(RP_OP_SETADCXY(RP_ADC_SECOND0 | RP_ADC_SECOND1, 0, 0, 0, 0, RP_ADC_UNPACK0 | RP_ADC_UNPACK1));
    RP_TTI(RP_OP_SETADCZW(15, 0, 0, 0, 0, RP_ADC_UNPACK0 | RP_ADC_UNPACK1));
    RP_STALLWAIT(RP_STALL_UNPACK, RP_WAIT_STORES);
}

void kernel_main(void) {
    uint32_t n = repeats();
    if (operation() == PACK_ONLY) {
        return;
    }
    configure();
    if (operation() == EXP) {
        for (; n != 0; n--) {
            UNPACR(0);
        }
    } else {
        for (; n != 0; n--) {
            UNPACR(1);
            UNPACR(0);
        }
    }
    rp_tensix_sync();
}

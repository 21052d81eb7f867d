// Packs tiles of Dst as bf16: see tile.h.

#include "tile.h"

#define CFG(field, value) rp_cfg_store(RP_FIELD_WORD(field), value)

#if defined(REPRISE_BLACKHOLE)
enum { PACKERS = 1, UNCOMPRESSED = 1, LENGTH = 16 };
#define PACR(mode, last) RP_TTI(RP_OP_PACR(last, 0, 0, 0, 0, 0, mode, 0, 0, 0, 0, 0, 0))
#else
enum { PACKERS = 4, UNCOMPRESSED = 0x20001, LENGTH = 2 };
#define ALL_PACKERS 15
#endif

static void configure(void) {
    CFG(RP_CFG_PACK_Y_STRIDE, RP_FIELD(RP_CFG_PACK_Y_STRIDE, 32));
    CFG(RP_CFG_PACK_Z_STRIDE, RP_FIELD(RP_CFG_PACK_W_STRIDE, 2048) | RP_FIELD(RP_CFG_PACK_Z_STRIDE, 512));
    for (uint32_t i = 0; i < PACKERS; i++) {  // each of Wormhole's packers has a face
        CFG(RP_CFG_PACK_EXPONENTS(i), 0);
        CFG(RP_CFG_PACK_OUT(i), i == 0 ? RP_PACK_ADDRESS | rp_tensix_address(rp_arg(4)) : 32 * i - 1);
        CFG(RP_CFG_PACK_OUT_FORMAT(i), UNCOMPRESSED | RP_FIELD(RP_CFG_PACK_OUT_FORMAT(0), RP_BF16) | RP_FIELD(RP_CFG_PACK_IN_FORMAT(0), RP_BF16));
        CFG(RP_CFG_PACK_DOWN_MASK(i), 0);
        CFG(RP_CFG_PACK_ROWS(i), RP_FIELD(RP_CFG_PACK_ROWS(0), 16));
        CFG(RP_CFG_PACK_DST(i), 16 * i);
    }
    CFG(RP_CFG_PACK_READ32, 0);
    CFG(RP_CFG_EDGE_MASK(0), 0xFFFF);
    CFG(RP_CFG_ROW_SETS(0), 0);
    RP_CFG_LOCK();
    RP_CFG_RMW(RP_CFG_DST_FORMAT, RP_BF16);
    RP_CFG_RMW(RP_CFG_RELU, 0);
    RP_CFG_UNLOCK();
    RP_TTI(RP_OP_SETADCXY(RP_ADC_SECOND0 | RP_ADC_SECOND1, 0, 0, 0, 0, RP_ADC_PACK));
    RP_TTI(RP_OP_SETADCZW(15, 0, 0, 0, 0, RP_ADC_PACK));
    RP_TTI(RP_OP_REPLAY(1, 0, LENGTH, 0));
#if defined(REPRISE_BLACKHOLE)
    PACR(0, 0); PACR(0, 0); PACR(0, 0); PACR(2, 0); PACR(0, 0); PACR(0, 0); PACR(0, 0); PACR(2, 0);
    PACR(0, 0); PACR(0, 0); PACR(0, 0); PACR(2, 0); PACR(0, 0); PACR(0, 0); PACR(0, 0); PACR(1, 1);
    RP_TTI(RP_OP_SETADCXX(0, 15, RP_ADC_PACK));
    RP_PACK_MODE(0, RP_FIELD(RP_THREAD_PACK_MODE_Y_SRC_INCREMENT(0), 4) | RP_FIELD(RP_THREAD_PACK_MODE_Y_DST_INCREMENT(0), 4));
    RP_PACK_MODE(1, RP_FIELD(RP_THREAD_PACK_MODE_Y_SRC_CLEAR(0), 1) | RP_FIELD(RP_THREAD_PACK_MODE_Y_DST_CLEAR(0), 1) |
                        RP_FIELD(RP_THREAD_PACK_MODE_Z_SRC_CLEAR(0), 1));
    RP_PACK_MODE(2, RP_FIELD(RP_THREAD_PACK_MODE_Y_SRC_CLEAR(0), 1) | RP_FIELD(RP_THREAD_PACK_MODE_Z_SRC_INCREMENT(0), 1) |
                        RP_FIELD(RP_THREAD_PACK_MODE_Y_DST_INCREMENT(0), 4));
#else
    RP_TTI(RP_OP_PACR(0, 1, 0, 0, ALL_PACKERS, 0, 0, 0, 0, 0, 0, 0, 0));
    RP_TTI(RP_OP_PACR(1, 0, 1, 0, ALL_PACKERS, 0, 1, 0, 0, 0, 0, 0, 0));
    RP_TTI(RP_OP_SETADCXX(0, 255, RP_ADC_PACK));
    RP_PACK_MODE(0, RP_FIELD(RP_THREAD_PACK_MODE_Y_SRC_CLEAR(0), 1) | RP_FIELD(RP_THREAD_PACK_MODE_Y_DST_CLEAR(0), 1));
    RP_PACK_MODE(1, RP_FIELD(RP_THREAD_PACK_MODE_Y_SRC_CLEAR(0), 1) | RP_FIELD(RP_THREAD_PACK_MODE_Y_DST_CLEAR(0), 1));
#endif
    RP_STALLWAIT(RP_STALL_PACK, RP_WAIT_STORES);
}

void kernel_main(void) {
    if (operation() == UNPACK_ONLY) {
        return;
    }
    configure();
    for (uint32_t n = repeats(); n != 0; n--) {
        RP_SEM_WAIT(SEM_PACK, RP_SEM_WHILE_ZERO, RP_STALL_TDMA);
        RP_TTI(RP_OP_REPLAY(0, 0, LENGTH, 0));
        RP_STALLWAIT(RP_STALL_SYNC, RP_WAIT_PACK);
        RP_SEM_GET(SEM_PACK);
    }
    rp_tensix_sync();
}

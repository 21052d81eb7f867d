// Computes tiles in Dst, one at a time: see tile.h.

#include "tile.h"

#if defined(REPRISE_BLACKHOLE)
enum { COPY = 1, LAST = 5, STORE = 6, LOAD = 7 };  // address modes
#define PHASE(n) ((void)0)                         // address mode LAST goes on to the next phase
#else
enum { LAST = 0, COPY = 1, LOAD = 2, STORE = 3 };
#define PHASE(n) rp_tensix_push(RP_OP_SETC16(n, RP_FIELD_WORD(RP_THREAD_FIDELITY_BASE)))
#endif

// record puts a tile's instructions into the REPLAY buffer and returns how many there are.
static uint32_t record(uint32_t operation) {
    switch (operation) {
    case MATMUL:  // faces of SrcB, eight rows at a time, by faces of SrcA
        RP_ADDRESS_MODE(0, RP_MODE_B(8), RP_MODE_DST(8));
        RP_ADDRESS_MODE(1, RP_MODE_A(16) | RP_MODE_B_CARRY, RP_MODE_DST(8));
        RP_ADDRESS_MODE(2, RP_MODE_A_CARRY | RP_MODE_B(32) | RP_MODE_B_CARRY, RP_MODE_DST(8));
        RP_ADDRESS_MODE(3, RP_MODE_A(32) | RP_MODE_A_CARRY | RP_MODE_B(48) | RP_MODE_B_CARRY, RP_MODE_DST_CARRY);
#define MVMUL(mode) RP_TTI(RP_OP_MVMUL(0, mode, 0, 0))
        RP_TTI(RP_OP_REPLAY(1, 0, 16, 0));
        MVMUL(0); MVMUL(1); MVMUL(0); MVMUL(2); MVMUL(0); MVMUL(1); MVMUL(0); MVMUL(3);
        MVMUL(0); MVMUL(1); MVMUL(0); MVMUL(2); MVMUL(0); MVMUL(1); MVMUL(0); MVMUL(LAST);
        return 16;
    case ADD:
        RP_ADDRESS_MODE(0, RP_MODE_A(8) | RP_MODE_B(8), RP_MODE_DST(8));
        RP_TTI(RP_OP_REPLAY(1, 0, 8, 0));
#define ADD_ROWS RP_TTI(RP_OP_ELWADD(0, 0, 0, 0, 0))
        ADD_ROWS; ADD_ROWS; ADD_ROWS; ADD_ROWS; ADD_ROWS; ADD_ROWS; ADD_ROWS; ADD_ROWS;
        return 8;
    case MUL:
        RP_ADDRESS_MODE(0, RP_MODE_A(8) | RP_MODE_B(8), RP_MODE_DST(8));
#define MUL_ROWS(mode) RP_TTI(RP_OP_ELWMUL(0, mode, 0, 0, 0))
        RP_TTI(RP_OP_REPLAY(1, 0, 8, 0));
        MUL_ROWS(0); MUL_ROWS(0); MUL_ROWS(0); MUL_ROWS(0); MUL_ROWS(0); MUL_ROWS(0); MUL_ROWS(0); MUL_ROWS(LAST);
        return 8;
    }
    return 0;
}

// record_exp does the same for the exponential of 32 data. SFPMAD moves the number to where its exponent and mantissa are those of
// the result; the mantissa goes through a polynomial.
#if defined(REPRISE_BLACKHOLE)
enum { EXP_LENGTH = 15 };
#else
enum { EXP_LENGTH = 20 };
#endif
static void record_exp(void) {
    RP_ADDRESS_MODE(COPY, 0, 0);
    RP_ADDRESS_MODE(LOAD, 0, 0);
    RP_ADDRESS_MODE(STORE, 0, RP_MODE_DST(2));
    RP_TTI(RP_OP_SFPENCC(10, 0, 3));
    RP_SFPU_LOADI(0, 0x3FB8AA3Bu);  // 1 / ln 2
    RP_TTI(RP_OP_SFPCONFIG(0, 12, 0));
    RP_SFPU_LOADI(0, 0x42FE0000u);  // 127
    RP_TTI(RP_OP_SFPCONFIG(0, 13, 0));
    RP_SFPU_LOADI(0, 0x437F0000u);  // 255
    RP_TTI(RP_OP_SFPCONFIG(0, 14, 0));
    RP_SFPU_LOADI(4, 0x3EE61789u);  // 2^(t-1) on [1, 2), not below 1
    RP_SFPU_LOADI(5, 0x3EF7B9E8u);
    RP_SFPU_LOADI(6, 0xBC4806A5u);
    RP_SFPU_LOADI(7, 0x3DA1B996u);
    RP_TTI(RP_OP_REPLAY(1, 0, EXP_LENGTH, 0));
    RP_TTI(RP_OP_SFPLOAD(0, LOAD, RP_SFPU_BF16, 0));
    RP_TTI(RP_OP_SFPMAD(0, 0, 13, 12, 0));
    RP_TTI(RP_OP_SFPNOP);  // Blackhole, too, doesn't know that SFPSWAP reads its result
    RP_TTI(RP_OP_SFPSWAP(1, 0, 14));  // at most 255
    RP_SFPU_SETTLE();
    RP_TTI(RP_OP_SFPSWAP(9, 0, RP_LREG_ZERO));  // at least 0
    RP_SFPU_SETTLE();
    RP_TTI(RP_OP_SFPEXEXP(0, 1, 0));
    RP_TTI(RP_OP_SFPEXMAN(0, 2, 0));
    RP_TTI(RP_OP_SFPSHFT(0, 2, 1, 0));         // fixed point, 23 bits of fraction
    RP_TTI(RP_OP_SFPSETEXP(1, 1, 2, 127));     // t: 1 and the fraction
    RP_TTI(RP_OP_SFPMAD(0, 3, 6, 7, 1));
    RP_SFPU_SETTLE();
    RP_TTI(RP_OP_SFPMAD(0, 3, 5, 3, 1));
    RP_SFPU_SETTLE();
    RP_TTI(RP_OP_SFPMAD(0, 3, 4, 3, 1));
    RP_SFPU_SETTLE();
    RP_TTI(RP_OP_SFPSETEXP(2, 2, 3, 0));       // with the exponent that stands in L2
    RP_TTI(RP_OP_SFP_STOCH_RND(1, 2, 2, 0, 0, 0));
    RP_TTI(RP_OP_SFPSTORE(0, STORE, RP_SFPU_BF16, 2));
}

static void rows(void) {
    for (uint32_t i = 0; i < 32; i++) {
        RP_TTI(RP_OP_REPLAY(0, 0, EXP_LENGTH, 0));
    }
}

static void products(uint32_t length, uint32_t phases) {
    for (uint32_t phase = 0; phase < phases; phase++) {
        PHASE(phase);
        rp_tensix_push(RP_OP_REPLAY(0, 0, length, 0));
        RP_TTI(RP_OP_SETRWC(RP_RWC_A | RP_RWC_B | RP_RWC_D, 0, 0, 0, 0, 0));
    }
}

void kernel_main(void) {
    uint32_t what = operation(), phases = what == MATMUL || what == MUL ? rp_arg(5) : 1;
    RP_TTI(RP_OP_SETRWC(RP_RWC_ALL, 0, 0, 0, 0, 0));
    RP_THREAD_SET(RP_THREAD_DST_OFFSET, 0);
#if defined(REPRISE_BLACKHOLE)
    RP_ADDRESS_MODE(LAST, 0, RP_MODE_FIDELITY(1));
#else
    RP_THREAD_SET(RP_THREAD_FIDELITY_BASE, 0);
#endif
    RP_SEM_INIT(SEM_PACK, 0, 1);
    uint32_t length = 0;
    if (what == EXP) {
        record_exp();
    } else {
        length = record(what);
    }
    RP_STALLWAIT(RP_STALL_SYNC, RP_WAIT_MATH | RP_WAIT_SFPU);
    for (uint32_t n = repeats(); n != 0; n--) {
        switch (what) {
        case UNPACK_ONLY:
            RP_STALLWAIT(RP_STALL_MATH, RP_WAIT_SRCA_VALID | RP_WAIT_SRCB_VALID);
            RP_TTI(RP_OP_SETRWC(RP_RWC_ALL, 0, 0, 0, 0, RP_SRCA | RP_SRCB));
            continue;
        case PACK_ONLY:
            RP_SEM_WAIT(SEM_PACK, RP_SEM_WHILE_MAX, RP_STALL_SYNC);
            RP_SEM_POST(SEM_PACK);
            continue;
        }
        RP_SEM_WAIT(SEM_PACK, RP_SEM_WHILE_MAX, RP_STALL_MATH | RP_STALL_SFPU | RP_STALL_SYNC);
        if (what == EXP) {
#define MOVE(row) RP_TTI(RP_OP_MOVA2D(row, 2, COPY, row, 0))
            MOVE(0); MOVE(8); MOVE(16); MOVE(24); MOVE(32); MOVE(40); MOVE(48); MOVE(56);
            RP_TTI(RP_OP_SETRWC(RP_RWC_ALL, 0, 0, 0, 0, RP_SRCA));
            RP_STALLWAIT(RP_STALL_SFPU, RP_WAIT_MATH);
            rows();
            RP_TTI(RP_OP_SETRWC(RP_RWC_ALL, 0, 0, 0, 0, 0));
        } else {
            RP_TTI(RP_OP_ZEROACC(0, 0, RP_CLEAR_ALL, 0, 0));
            products(length, phases);
            RP_TTI(RP_OP_SETRWC(RP_RWC_ALL, 0, 0, 0, 0, RP_SRCA | RP_SRCB));
        }
        RP_STALLWAIT(RP_STALL_SYNC, RP_WAIT_MATH | RP_WAIT_SFPU);
        RP_SEM_POST(SEM_PACK);
    }
    rp_tensix_sync();
}

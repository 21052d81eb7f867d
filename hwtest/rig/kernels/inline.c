// Drives the engines as kernels do, by the macros of reprise/tensix.h: instructions known when compiling, as .ttinsn. Each T
// core counts in a register of its thread. A semaphore holds TRISC0's thread back until TRISC1 has counted, so that its queue
// fills up and the core waits for room.
//
// Unique arguments: 0 L1 address for six words: the count, a register that instructions set, a word of the configuration after
// fields in it were changed, a semaphore's value before and after two posts, and the count that MOP and REPLAY make; 1 how often
// to count.

#include "reprise/tensix.h"

enum { COUNT = 8, ONE = 9, SET = 10, SEM = 3, READY = 4 };
#define WORD RP_FIELD_WORD(RP_CFG_UNPACK_BASE(3))
#define COUNT_ONE RP_OP_ADDDMAREG(COUNT, ONE, COUNT, 0)

void kernel_main(void) {
    uint32_t to = rp_arg(0), n = rp_arg(1), processor = rp_processor();
    RP_GPR_SET(COUNT, 0);
    RP_GPR_SET(ONE, 1);
    RP_GPR_SET(SET, 0x89ABCDEFu);
    if (processor == RP_TRISC0) {
        RP_SEM_INIT(SEM, 0, 15);
        rp_tensix_sync();
        rp_store(to + 12, rp_sem_value(SEM));
        rp_sem_post(READY);
        RP_SEM_WAIT(SEM, RP_SEM_WHILE_ZERO, RP_STALL_ALL);
    }
    for (; n != 0; n--) {
        RP_TTI(COUNT_ONE);
    }
    if (processor == RP_TRISC1) {
        RP_WAIT("TSEM", READY, rp_sem_value(READY) != 0);
        rp_sem_get(READY);
        RP_SEM_POST(SEM);
        RP_SEM_POST(SEM);
    }
    rp_tensix_sync();
    rp_store(to, rp_gpr_load(COUNT));
    rp_store(to + 4, rp_gpr_load(SET));
    if (processor == RP_TRISC0) {
        RP_WAIT("TSEM", SEM, rp_sem_value(SEM) == 2);
        rp_store(to + 16, rp_sem_value(SEM));
    }

    RP_GPR_SET(COUNT, 0);
    rp_tensix_sync();
    rp_mop_loops(3, 5, COUNT_ONE, COUNT_ONE, RP_OP_NOP, COUNT_ONE, RP_OP_NOP, COUNT_ONE, COUNT_ONE);  // 3 * (1 + 5 + 1)
    RP_TTI(RP_OP_MOP(1, 0, 0));
    rp_mop_sync();
    RP_TTI(RP_OP_REPLAY(1, 0, 4, 2));  // records four, which count nothing yet
    RP_TTI(COUNT_ONE);
    RP_TTI(COUNT_ONE);
    RP_TTI(COUNT_ONE);
    RP_TTI(COUNT_ONE);
    RP_TTI(RP_OP_REPLAY(0, 0, 4, 2));
    RP_TTI(RP_OP_REPLAY(0, 0, 3, 3));
    rp_tensix_sync();
    rp_store(to + 20, rp_gpr_load(COUNT));

    if (processor == RP_TRISC1) {
        RP_CFG_LOCK();
        rp_cfg_store(WORD, 0);
        RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_STORES);
        RP_CFG_RMW(RP_CFG_UNPACK_BASE(3), 0x12345678u);
        RP_CFG_UNLOCK();
        rp_tensix_sync();
        rp_store(to + 8, rp_cfg_load(WORD));
    } else if (processor == RP_TRISC2) {
        rp_cfg_set(RP_CFG_PACK_Y_STRIDE, 96);
        rp_store(to + 8, rp_cfg_load(RP_FIELD_WORD(RP_CFG_PACK_Y_STRIDE)) & RP_FIELD_MASK(RP_CFG_PACK_Y_STRIDE));
    }
}

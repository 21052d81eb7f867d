// Base firmware of TRISC0, TRISC1 and TRISC2, the cores that feed the Tensix coprocessor: one source, built three
// times. BRISC tells each through its byte of the sync word: GO = run; it answers DONE.
//
// Waypoints: BOOT, IDLE (waiting for BRISC), PREP (getting ready), the kernel's own, SYNC (coprocessor still busy).

#include "firmware.h"

#define NUM_GPRS 64u

static volatile uint8_t* const sync = &RP_MAILBOX->sync[REPRISE_PROCESSOR - 1];

// wait_coprocessor returns when the coprocessor has done everything this core gave it: the load waits for that, and
// the store before it makes the load start after this core's earlier instructions.
static void wait_coprocessor(void) {
    rp_store(RP_PC_BUF_TENSIX_SYNC, 0);
    uint32_t v = rp_load(RP_PC_BUF_TENSIX_SYNC);
    __asm__ volatile("addi x0, %0, 0" ::"r"(v) : "memory");
}

void firmware_main(void) {
    uint32_t kernels = 0;

    rp_waypoint("BOOT");
    boot_local();
    for (uint32_t i = 0; i < NUM_GPRS; i++) {
        rp_store(RP_TENSIX_GPRS + 4 * i, 0);
    }
    *sync = RP_SYNC_DONE;

    for (;;) {
        rp_waypoint("IDLE");
        while (*sync != RP_SYNC_GO) {
            rp_invalidate_l1();
        }

        rp_waypoint("PREP");
        const volatile struct rp_launch* launch = &RP_MAILBOX->launch[RP_MAILBOX->launch_read_ptr];
        prepare_local(launch);
        RP_LOCAL->noc_index = 0;
        rp_core_state()->kernels = ++kernels;
        run_kernel(launch);
        rp_waypoint("SYNC");
        wait_coprocessor();
        *sync = RP_SYNC_DONE;
    }
}

// Base firmware of NCRISC, the second data-movement core. BRISC tells it through its byte of the sync word:
// LOAD = get ready, GO = run; it answers DONE.
//
// Waypoints: BOOT, IDLE (waiting for BRISC), PREP (getting ready), then the kernel's own.

#include "firmware.h"

static volatile uint8_t* const sync = &RP_MAILBOX->sync[REPRISE_PROCESSOR - 1];

void firmware_main(void) {
    uint32_t kernels = 0;

    rp_waypoint("BOOT");
    boot_local();
    *sync = RP_SYNC_DONE;

    for (;;) {
        rp_waypoint("IDLE");
        while (*sync == RP_SYNC_DONE) {
            rp_invalidate_l1();
        }

        rp_waypoint("PREP");
        const volatile struct rp_launch* launch = &RP_MAILBOX->launch[RP_MAILBOX->launch_read_ptr];
        prepare_local(launch);
        prepare_noc((launch->brisc_noc_id & 1) ^ 1);
        while (*sync != RP_SYNC_GO) {
            rp_invalidate_l1();
        }
        rp_core_state()->kernels = ++kernels;
        run_kernel(launch);
        *sync = RP_SYNC_DONE;
    }
}

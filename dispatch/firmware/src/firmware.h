// What the base firmwares of the five processors have in common: getting struct rp_local ready and running a kernel.
#ifndef REPRISE_FIRMWARE_H
#define REPRISE_FIRMWARE_H

#include "reprise/noc.h"

typedef void (*kernel_entry)(void);

// boot_local fills what stays the same until reset.
RP_INLINE void boot_local(void) {
    for (uint32_t noc = 0; noc < RP_NUM_NOCS; noc++) {
        uint32_t xy = rp_noc_self(noc);
        RP_LOCAL->my_x[noc] = (uint8_t)(xy & 63);
        RP_LOCAL->my_y[noc] = (uint8_t)(xy >> 6);
    }
    RP_LOCAL->logical_x = RP_MAILBOX->core_info.logical_x;
    RP_LOCAL->logical_y = RP_MAILBOX->core_info.logical_y;
    RP_LOCAL->processor = REPRISE_PROCESSOR;
    RP_LOCAL->core_state = (uint32_t)rp_core_state();
}

// prepare_local fills what the launch message says.
RP_INLINE void prepare_local(const volatile struct rp_launch* launch) {
    uint32_t base = launch->kernel_config_base[0];
    RP_LOCAL->rta_base = base + launch->args[REPRISE_PROCESSOR].unique;
    RP_LOCAL->crta_base = base + launch->args[REPRISE_PROCESSOR].common;
    RP_LOCAL->sem_base = base + launch->sem_offset[0];
    RP_LOCAL->launch = (uint32_t)launch;
    RP_LOCAL->go = (uint32_t)&RP_MAILBOX->go[RP_MAILBOX->go_index];
    RP_LOCAL->noc_mode = launch->brisc_noc_mode;
    RP_LOCAL->relative_x = (uint8_t)(RP_LOCAL->logical_x - launch->sub_device_origin_x);
    RP_LOCAL->relative_y = (uint8_t)(RP_LOCAL->logical_y - launch->sub_device_origin_y);

    const volatile struct rp_cb_config* config = (const volatile struct rp_cb_config*)(base + launch->local_cb_offset);
    struct rp_cb* cb = RP_LOCAL->cb;
    for (uint32_t mask = launch->local_cb_mask; mask != 0; mask >>= 1, config++, cb++) {
        if ((mask & 1) == 0) {
            continue;
        }
        uint32_t address = config->address;
        uint32_t size = config->size;
        cb->fifo_size = size;
        cb->fifo_limit = address + size;
        cb->fifo_page_size = config->page_size;
        cb->fifo_num_pages = config->num_pages;
        cb->fifo_rd_ptr = address;
        cb->fifo_wr_ptr = address;
        cb->tiles_acked = 0;
        cb->tiles_received = 0;
        cb->fifo_wr_tile_ptr = 0;
    }
}

// prepare_noc takes over a NoC for one kernel.
RP_INLINE void prepare_noc(uint32_t noc) {
    RP_LOCAL->noc_index = (uint8_t)noc;
    rp_noc_ready(noc, RP_BUF_ATOMIC);  // the last completion has left
    for (uint32_t buf = 0; buf < 4; buf++) {
        rp_noc_set(noc, buf, RP_NOC_PACKET_TAG, 0);  // whoever was here before may have left a tag
    }
    rp_noc_counters_init(noc);
}

// run_kernel calls this processor's kernel. The kernel's own start-up (kernels/lib/start.c) sets up its data and
// waits for the go signal before it enters kernel_main.
RP_INLINE void run_kernel(const volatile struct rp_launch* launch) {
    ((kernel_entry)(launch->kernel_config_base[0] + launch->kernel_text_offset[REPRISE_PROCESSOR]))();
}

// wait_go returns when the dispatcher, or the host, says go.
RP_INLINE void wait_go(const volatile struct rp_go* go) {
    while (go->signal != RP_SIGNAL_GO) {
        rp_invalidate_l1();
    }
}

#endif

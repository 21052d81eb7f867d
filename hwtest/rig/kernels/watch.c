// Does what its first argument says: nothing wrong, or what a check of reprise/watch.h reports.
#define REPRISE_WATCH 1
#include "reprise/assert.h"

static uint32_t data[8];

__attribute__((noinline)) static uint32_t deep(uint32_t n) {
    volatile uint32_t room[8];
    for (uint32_t i = 0; i < 8; i++) {
        room[i] = n;
    }
    if ((uint32_t)room > (uint32_t)__bss_end) {
        data[n & 7] += deep(n);
    }
    return room[n & 7] + data[0];
}

void kernel_main(void) {
    for (uint32_t i = 0; i < RP_WATCH_GUARD; i++) {
        __bss_end[i] = RP_WATCH_PAINT;  // as lib/start.c does it in kernels compiled to be watched
    }
    uint32_t what = rp_arg(0);
    uint32_t self = rp_noc_coord(RP_LOCAL->my_x[0], RP_LOCAL->my_y[0]);
    rp_cb_reserve_back(3, 1);
    rp_cb_push_back(3, 1);
    rp_cb_wait_front(3, 1);
    rp_cb_pop_front(3, 1);
    switch (what) {
    case 1: reprise_assert(what < 1 && "numbers, 100%"); break;
    case 2: rp_cb_push_back(3, 1); break;
    case 3: rp_cb_wait_front(3, 3); break;
    case 4: rp_noc_read(0, self, 0x30004, 0x40000, 64); break;
    case 5: rp_noc_write(0, rp_noc_coord(15, 15), 0x30000, 0x40000, 64); break;
    case 6: rp_noc_write(0, self, RP_L1_SIZE - 32, 0x40000, 64); break;
    case 7: data[0] = deep(what); break;
    }
    rp_watch_stack();
    rp_store(0x50000, data[0]);
}

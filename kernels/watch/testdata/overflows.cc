
#include "reprise/kernel.h"

static uint32_t data[8];

// deep takes stack down to the data, and does something there if n is 2.
__attribute__((noinline)) uint32_t deep(uint32_t n) {
    volatile uint32_t room[8];
    for (uint32_t i = 0; i < 8; i++) {
        room[i] = n;
    }
    if (n != 0 && (uint32_t)room > (uint32_t)__bss_end) {
        data[n & 7] += deep(n);
    } else if (n == 2) {
        rp_noc_read(0, rp_noc_coord(RP_LOCAL->my_x[0], RP_LOCAL->my_y[0]), 0x30000, 0x40000, 64);
    }
    return room[n & 7] + data[0];
}

void kernel_main(void) {
    rp_store(0x40000, deep(rp_arg(0)));
}

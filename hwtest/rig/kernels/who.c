// Leaves what it knows of itself in L1: 16 words for each processor. Any processor.
//
// Unique arguments: 0 L1 address.

#include "reprise/kernel.h"

static uint32_t data = 0x600D600D;  // lies in local RAM, and is copied there by the start-up code
static uint32_t bss[4];             // is cleared by it

void kernel_main(void) {
    uint32_t at = rp_arg(0) + 64 * RP_LOCAL->processor;
    rp_store(at, RP_LOCAL->processor);
    rp_store(at + 4, RP_LOCAL->logical_x);
    rp_store(at + 8, RP_LOCAL->logical_y);
    rp_store(at + 12, RP_LOCAL->my_x[0] | RP_LOCAL->my_y[0] << 8);
    rp_store(at + 16, RP_LOCAL->my_x[1] | RP_LOCAL->my_y[1] << 8);
    rp_store(at + 20, RP_LOCAL->noc_index);
    rp_store(at + 24, data++);
    rp_store(at + 28, bss[0]++ | bss[3]--);
    rp_store(at + 32, rp_load(at + 32) + 1);  // how often it ran
}

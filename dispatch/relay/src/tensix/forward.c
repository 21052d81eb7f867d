// Runs on the core whose L1 the far chip's prefetchers and dispatchers take for host memory. A dispatcher publishes its
// completions by a word behind them, in the same memory; this kernel sends each new word on to the Ethernet tile, so that the
// relay has to look at its own memory only. BRISC, NoC 0. Arguments: number of queues, the Ethernet tile as x | y << 6, then for
// each queue the word's address here and there.

#include "reprise/kernel.h"

#define NOC 0u
#define QUEUES 2u

void kernel_main(void) {
    uint32_t queues = rp_arg(0), coord = rp_noc_coord_xy(rp_arg(1)), last[QUEUES];
    for (uint32_t q = 0; q < queues; q++) {
        last[q] = rp_load(rp_arg(2 + 2 * q));
    }
    rp_waypoint("IDLE");
    for (;;) {
        rp_invalidate_l1();
        for (uint32_t q = 0; q < queues; q++) {
            uint32_t word = rp_load(rp_arg(2 + 2 * q));
            if (word != last[q]) {
                last[q] = word;
                rp_noc_word_write(NOC, coord, rp_arg(3 + 2 * q), word);
            }
        }
    }
}

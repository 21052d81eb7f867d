// Sends words of this core's L1 on to the remote chip's Ethernet tile when they change, so that the relay there has to look at its
// own memory only: on the core that the dispatchers take for host memory how far they have published their completions (BRISC),
// and on a prefetch core which entry of the fetch queue was taken last (NCRISC, beside the prefetcher, with which it ends).
//
// A word is a pointer that moves by steps through a ring. It is not copied, since it changes whenever its owner wants: it only
// says how far the kernel's own pointer may go, and that one is sent.
//
// Arguments: number of words, the Ethernet tile as x | y << 6 on the kernel's NoC, then for each word its address here and
// there, the ring's base and size, the step, what is changed in the pointer where the ring begins again, and its first value.

#include "reprise/kernel.h"

#define WORDS 2u
#define WORD_ARGS 7u

void kernel_main(void) {
    uint32_t noc = RP_LOCAL->noc_index, words = rp_arg(0), coord = rp_noc_coord_xy(rp_arg(1)), at[WORDS], flip[WORDS];
    for (uint32_t i = 0; i < words; i++) {
        at[i] = rp_arg(2 + WORD_ARGS * i + 6);
        flip[i] = 0;
    }
    rp_waypoint("IDLE");
    do {
        rp_invalidate_l1();
        for (uint32_t i = 0; i < words; i++) {
            uint32_t arg = 2 + WORD_ARGS * i, moved = 0;
            uint32_t here = rp_arg(arg), there = rp_arg(arg + 1), base = rp_arg(arg + 2), end = base + rp_arg(arg + 3);
            uint32_t step = rp_arg(arg + 4), mask = rp_arg(arg + 5), word = rp_load(here);
            while (word != (at[i] | flip[i])) {
                moved = 1;
                at[i] += step;
                if (at[i] >= end) {
                    at[i] = base;
                    flip[i] ^= mask;
                }
            }
            if (moved) {
                rp_noc_word_write(noc, coord, there, at[i] | flip[i]);
            }
        }
    } while (RP_LOCAL->processor == RP_BRISC || RP_MAILBOX->core_state[RP_BRISC].waypoint != RP_WAYPOINT_WORD("WAIT"));
    rp_wait_writes(noc);
}

// Mixes a number into a word of L1, so that the word tells which numbers were mixed in and in which order. Any
// processor.
//
// Unique arguments: 0 L1 address, 1 number. Common arguments: 0 a number added to it.

#include "reprise/kernel.h"

void kernel_main(void) {
    uint32_t at = rp_arg(0);
    rp_store(at, rp_load(at) * 1664525u + rp_arg(1) + rp_common_arg(0));
}

// Stores words to L1: the smallest kernel whose effect can be seen. Any processor.
//
// Unique arguments: 0 L1 address, 1 number of words, 2.. the words. Common arguments: 0 a number added to each.

#include "reprise/kernel.h"

void kernel_main(void) {
    uint32_t to = rp_arg(0), n = rp_arg(1), addend = rp_common_arg(0);
    for (uint32_t i = 0; i < n; i++) {
        rp_store(to + 4 * i, rp_arg(2 + i) + addend);
    }
}

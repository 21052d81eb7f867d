// Leaves its runtime arguments in L1. Any processor.
//
// Unique arguments: 0 L1 address, 1 number of unique arguments, 2 number of common arguments, 3.. anything. The unique
// ones come first.

#include "reprise/kernel.h"

void kernel_main(void) {
    uint32_t to = rp_arg(0), unique = rp_arg(1), common = rp_arg(2);
    for (uint32_t i = 0; i < unique; i++, to += 4) {
        rp_store(to, rp_arg(i));
    }
    for (uint32_t i = 0; i < common; i++, to += 4) {
        rp_store(to, rp_common_arg(i));
    }
}

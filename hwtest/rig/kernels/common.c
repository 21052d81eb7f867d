// Leaves its common runtime arguments in L1: a kernel without unique ones. Any processor.
//
// Common arguments: 0 L1 address, 1 number of common arguments, 2.. anything.

#include "reprise/kernel.h"

void kernel_main(void) {
    uint32_t to = rp_common_arg(0), n = rp_common_arg(1);
    for (uint32_t i = 0; i < n; i++, to += 4) {
        rp_store(to, rp_common_arg(i));
    }
}

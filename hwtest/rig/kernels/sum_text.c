// Adds up the words of its own text, which its test may have made longer. Any processor.
//
// Unique arguments: 0 L1 address for the sum, 1 number of words.

#include "reprise/kernel.h"

void kernel_main(void) {
    const volatile struct rp_launch* launch = (const volatile struct rp_launch*)RP_LOCAL->launch;
    uint32_t at = launch->kernel_config_base[0] + launch->kernel_text_offset[RP_LOCAL->processor];
    uint32_t sum = 0;
    for (uint32_t n = rp_arg(1); n != 0; n--, at += 4) {
        sum = sum * 31 + rp_load(at);
    }
    rp_store(rp_arg(0), sum);
}

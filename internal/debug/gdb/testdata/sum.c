// A kernel for the test of gdb: it adds numbers again and again until the host says 77.
#include "reprise/kernel.h"

// Without optimization, so that its variables are in memory.
__attribute__((noinline, optimize("O0"))) static uint32_t sum(uint32_t count) {
    uint32_t total = 0;
    for (uint32_t i = 1; i <= count; i++) {
        total += i;
    }
    return total;
}

void kernel_main(void) {
    while (rp_load(rp_arg(0)) != 77) {
        rp_store(rp_arg(1), sum(10));
    }
}

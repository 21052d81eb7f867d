// A kernel that waits in a function of functions: what its call stack must be is in live_test.go.
#include "reprise/kernel.h"

static inline uint32_t poll(uint32_t addr) { return *(volatile uint32_t*)addr; }

static __attribute__((noinline)) uint32_t wait_for(uint32_t addr, uint32_t value) {
    uint32_t rounds = 0;
    while (poll(addr) != value) {
        rounds++;
    }
    return rounds;
}

static __attribute__((noinline)) uint32_t outer(uint32_t addr, uint32_t depth) {
    if (depth != 0) {
        return outer(addr, depth - 1) + depth;
    }
    return wait_for(addr, rp_arg(1)) + 3;
}

void kernel_main(void) {
    uint32_t rounds = outer(rp_arg(0), 2);
    rp_store(rp_arg(2), rounds);
}

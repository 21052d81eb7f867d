// Stores the address of a function: not possible where text may be anywhere.

#include "reprise/kernel.h"

__attribute__((noinline)) static void step(uint32_t n) { rp_store(rp_arg(n), n); }

static void (*volatile pointer)(uint32_t) = step;

void kernel_main() { pointer(rp_arg(0)); }

// Prints numbers up to its first argument, then waits until its second argument isn't 1.
#define REPRISE_PRINTS 1
#include "reprise/print.h"

void kernel_main(void) {
    uint32_t n = rp_arg(0);
    for (uint32_t i = 0; i < n; i++) {
        reprise_print("line %u of %d", i, n);
    }
    RP_WAIT("STOP", n, rp_arg(1) != 1);
    reprise_print_at(RP_PRINT_WARN, "%s: %5.2f %lld", "end", 1.5f, -5000000000ll);
}

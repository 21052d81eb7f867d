// Loads from an address, whatever it is, and leaves what was there. Any processor.
//
// Unique arguments: 0 address, 1 L1 address for the value.

#include "reprise/kernel.h"

void kernel_main(void) { rp_store(rp_arg(1), rp_load(rp_arg(0))); }

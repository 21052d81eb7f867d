// Waits until a word of L1 has a value: a kernel that takes as long as its test wants, or hangs. Any processor.
//
// Unique arguments: 0 L1 address, 1 value.

#include "reprise/kernel.h"

void kernel_main(void) { rp_semaphore_wait(rp_arg(0), rp_arg(1)); }

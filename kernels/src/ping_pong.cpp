// Two cores take turns: each waits for its semaphore and then raises the other's.
//
// Unique arguments: 0 and 1 the other core's virtual x and y, 2 semaphore, 3 number of turns, 4 whether this core
// begins, 5 L1 address where the number of turns taken is left.

#include "api/dataflow/dataflow_api.h"

void kernel_main() {
    uint32_t semaphore = get_semaphore(get_arg_val<uint32_t>(2));
    uint64_t other = get_noc_addr(get_arg_val<uint32_t>(0), get_arg_val<uint32_t>(1), semaphore);
    volatile tt_l1_ptr uint32_t* mine = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(semaphore);
    uint32_t turns = get_arg_val<uint32_t>(3);
    bool begins = get_arg_val<uint32_t>(4) != 0;
    for (uint32_t turn = 1; turn <= turns; turn++) {
        if (begins) {
            noc_semaphore_inc(other, 1);
        }
        noc_semaphore_wait_min(mine, turn);
        if (!begins) {
            noc_semaphore_inc(other, 1);
        }
    }
    noc_async_atomic_barrier();
    *reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_arg_val<uint32_t>(5)) = turns;
}

// One core of a chain: waits for its semaphore, adds one to the word that arrived, hands it to the next core and
// raises that one's semaphore.
//
// Unique arguments: 0 and 1 the next core's virtual x and y, 2 semaphore, 3 L1 address of the word (a line of 16 bytes),
// 4 whether this core begins, 5 whether it is the last.

#include "api/dataflow/dataflow_api.h"

void kernel_main() {
    uint32_t x = get_arg_val<uint32_t>(0), y = get_arg_val<uint32_t>(1);
    uint32_t semaphore = get_semaphore(get_arg_val<uint32_t>(2));
    uint32_t at = get_arg_val<uint32_t>(3);
    if (!get_arg_val<uint32_t>(4)) {
        noc_semaphore_wait(reinterpret_cast<volatile tt_l1_ptr uint32_t*>(semaphore), 1);
    }
    volatile tt_l1_ptr uint32_t* word = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(at);
    *word = *word + 1;
    if (!get_arg_val<uint32_t>(5)) {
        rp_publish();
        noc_async_write(at, get_noc_addr(x, y, at), 16);
        noc_async_write_barrier();
        noc_semaphore_inc(get_noc_addr(x, y, semaphore), 1);
        noc_async_atomic_barrier();
    }
}

// Waits for multicast_send, then leaves the sum of the words that arrived.
//
// Unique arguments: 0 L1 address, 1 bytes, 2 semaphore, 3 L1 address for the sum.

#include "api/dataflow/dataflow_api.h"

void kernel_main() {
    noc_semaphore_wait(reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_semaphore(get_arg_val<uint32_t>(2))), 1);
    volatile tt_l1_ptr uint32_t* data = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_arg_val<uint32_t>(0));
    uint32_t sum = 0;
    for (uint32_t n = get_arg_val<uint32_t>(1) / 4; n != 0; n--) {
        sum += *data++;
    }
    *reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_arg_val<uint32_t>(3)) = sum;
}

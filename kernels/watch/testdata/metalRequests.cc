
#include "api/dataflow/noc.h"
#include "api/dataflow/circular_buffer.h"

void kernel_main() {
    uint32_t n = get_arg_val<uint32_t>(0);
    uint64_t self = get_noc_addr(0x30000);
    if (n == 1) {
        noc_async_read<64>(self + 4, 0x40000, 64);
    }
    if (n == 2) {
        noc_async_write(0x40000, self, 20000);
        noc_async_write(0x40000, get_noc_addr(15, 15, 0x30000), 20000);
    }
    if (n == 3) {
        noc_semaphore_inc(self + 2, 1);
    }
    if (n == 4) {
        CircularBuffer cb(3);
        cb.reserve_back(2);
        cb.push_back(3);
    }
    if (n == 5) {
        noc_async_read_set_state(self);
        noc_async_read_with_state(0x30000, RP_L1_SIZE, 64);
    }
    noc_async_full_barrier();
}

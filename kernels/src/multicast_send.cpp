// Sends a piece of this core's L1 to the same address of every core of a rectangle, itself included, then raises their
// semaphore to 1. The cores of the rectangle run multicast_wait.
//
// Unique arguments: 0..3 virtual x and y of the upper left and of the lower right core, 4 number of cores in the
// rectangle, 5 L1 address, 6 bytes, 7 semaphore. This core must lie in the rectangle.

#include "api/dataflow/dataflow_api.h"

void kernel_main() {
    uint32_t x0 = get_arg_val<uint32_t>(0), y0 = get_arg_val<uint32_t>(1);
    uint32_t x1 = get_arg_val<uint32_t>(2), y1 = get_arg_val<uint32_t>(3);
    uint32_t cores = get_arg_val<uint32_t>(4);
    uint32_t address = get_arg_val<uint32_t>(5);
    uint32_t bytes = get_arg_val<uint32_t>(6);
    uint32_t semaphore = get_semaphore(get_arg_val<uint32_t>(7));

    noc_semaphore_set(reinterpret_cast<volatile tt_l1_ptr uint32_t*>(semaphore), 1);
    if (cores > 1) {
        noc_async_write_multicast(address, get_noc_multicast_addr(x0, y0, x1, y1, address), bytes, cores - 1);
        noc_async_write_barrier();  // data and semaphore may take different paths
        noc_semaphore_set_multicast(semaphore, get_noc_multicast_addr(x0, y0, x1, y1, semaphore), cores - 1);
        noc_async_write_barrier();
    }
}

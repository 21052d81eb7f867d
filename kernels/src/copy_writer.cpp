// Writes what arrives in a circular buffer to pages of an interleaved DRAM buffer, one after another.
//
// Unique arguments: 0 address, 1 first page, 2 number of pages, 3 page size, 4 circular buffer.

#include "api/dataflow/dataflow_api.h"

void kernel_main() {
    const InterleavedAddrGen<true> destination = {get_arg_val<uint32_t>(0), get_arg_val<uint32_t>(3)};
    uint32_t page = get_arg_val<uint32_t>(1);
    uint32_t end = page + get_arg_val<uint32_t>(2);
    uint32_t cb = get_arg_val<uint32_t>(4);
    for (; page != end; page++) {
        cb_wait_front(cb, 1);
        noc_async_write_page(page, destination, get_read_ptr(cb));
        noc_async_writes_flushed();
        cb_pop_front(cb, 1);
    }
    noc_async_write_barrier();
}

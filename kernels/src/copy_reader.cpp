// Reads pages of an interleaved DRAM buffer into a circular buffer, one after another.
//
// Unique arguments: 0 address, 1 first page, 2 number of pages, 3 page size, 4 circular buffer.

#include "api/dataflow/dataflow_api.h"

void kernel_main() {
    const InterleavedAddrGen<true> source = {get_arg_val<uint32_t>(0), get_arg_val<uint32_t>(3)};
    uint32_t page = get_arg_val<uint32_t>(1);
    uint32_t end = page + get_arg_val<uint32_t>(2);
    uint32_t cb = get_arg_val<uint32_t>(4);
    for (; page != end; page++) {
        cb_reserve_back(cb, 1);
        noc_async_read_page(page, source, get_write_ptr(cb));
        noc_async_read_barrier();
        cb_push_back(cb, 1);
    }
}

// Copies pages of one interleaved DRAM buffer to another through a piece of L1: one data-movement processor alone.
//
// Unique arguments: 0 source address, 1 destination address, 2 first page, 3 number of pages, 4 page size,
// 5 L1 address of a page's worth of memory, aligned as DRAM is.

#include "api/dataflow/dataflow_api.h"

void kernel_main() {
    const InterleavedAddrGen<true> source = {get_arg_val<uint32_t>(0), get_arg_val<uint32_t>(4)};
    const InterleavedAddrGen<true> destination = {get_arg_val<uint32_t>(1), get_arg_val<uint32_t>(4)};
    uint32_t page = get_arg_val<uint32_t>(2);
    uint32_t end = page + get_arg_val<uint32_t>(3);
    uint32_t l1 = get_arg_val<uint32_t>(5);
    for (; page != end; page++) {
        noc_async_read_page(page, source, l1);
        noc_async_read_barrier();
        noc_async_write_page(page, destination, l1);
        noc_async_writes_flushed();
    }
    noc_async_write_barrier();
}

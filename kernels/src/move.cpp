// Copies pages of one interleaved buffer to another, each in DRAM or in L1, through a circular buffer of the core: one
// data-movement processor alone.
//
// Unique arguments: 0 source address, 1 destination address, 2 first page, 3 number of pages, 4 page size,
// 5 circular buffer of at least one page, 6 what lies in L1: 1 the source, 2 the destination, 3 both.

#include "api/dataflow/dataflow_api.h"

template <bool FROM_DRAM, bool TO_DRAM>
static FORCE_INLINE void move() {
    const InterleavedAddrGen<FROM_DRAM> source = {get_arg_val<uint32_t>(0), get_arg_val<uint32_t>(4)};
    const InterleavedAddrGen<TO_DRAM> destination = {get_arg_val<uint32_t>(1), get_arg_val<uint32_t>(4)};
    uint32_t page = get_arg_val<uint32_t>(2);
    uint32_t end = page + get_arg_val<uint32_t>(3);
    uint32_t l1 = get_write_ptr(get_arg_val<uint32_t>(5));
    for (; page != end; page++) {
        noc_async_read_page(page, source, l1);
        noc_async_read_barrier();
        noc_async_write_page(page, destination, l1);
        noc_async_writes_flushed();
    }
    noc_async_write_barrier();
}

void kernel_main() {
    switch (get_arg_val<uint32_t>(6)) {
    case 0: move<true, true>(); break;
    case 1: move<false, true>(); break;
    case 2: move<true, false>(); break;
    default: move<false, false>(); break;
    }
}

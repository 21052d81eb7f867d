// Writer of a dense layer, on NCRISC: takes result pages from the three lanes in turn to DRAM.
//
// Runtime arguments, uint32:
//   0 output: address of the interleaved DRAM buffer of result pages
//   1 first page of this core's share
//   2 pages in this core's share, may be 0
//   3 bytes in a page, 64
#include "api/dataflow/dataflow_api.h"
#include "layout.h"

void kernel_main() {
    const uint32_t first = get_arg_val<uint32_t>(1);
    const uint32_t pages = get_arg_val<uint32_t>(2);
    const uint32_t page_bytes = get_arg_val<uint32_t>(3);
    const InterleavedAddrGen<true> output = {.bank_base_address = get_arg_val<uint32_t>(0), .page_size = page_bytes};

    for (uint32_t page = 0; page < pages; page += kLanes) {
        const uint32_t lanes = pages - page < kLanes ? pages - page : kLanes;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            cb_wait_front(kOutputBuffer + lane, 1);
            noc_async_write(get_read_ptr(kOutputBuffer + lane), get_noc_addr(first + page + lane, output), page_bytes);
        }
        // A page's space can be reused once its bytes have left this core.
        noc_async_writes_flushed();
        for (uint32_t lane = 0; lane < lanes; lane++) {
            cb_pop_front(kOutputBuffer + lane, 1);
        }
    }
    // The next program may read the buffer: wait until everything is in DRAM.
    noc_async_write_barrier();
}

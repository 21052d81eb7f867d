// Reads pages of some buffers into circular buffers 0, 1, 2, ..., a page of each in turn. Arguments: number of buffers; address
// and number of pages of each.
#include "api/dataflow/dataflow_api.h"

void kernel_main() {
    const uint32_t buffers = get_arg_val<uint32_t>(0);
    for (uint32_t page = 0, more = 1; more != 0; page++) {
        more = 0;
        for (uint32_t cb = 0; cb < buffers; cb++) {
            if (page >= get_arg_val<uint32_t>(2 + 2 * cb)) {
                continue;
            }
            more = 1;
            const InterleavedAddrGen<true> from = {get_arg_val<uint32_t>(1 + 2 * cb), get_tile_size(cb)};
            cb_reserve_back(cb, 1);
            noc_async_read_page(page, from, get_write_ptr(cb));
            noc_async_read_barrier();
            cb_push_back(cb, 1);
        }
    }
}

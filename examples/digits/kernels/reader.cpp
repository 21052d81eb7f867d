// Reader of a dense layer, on BRISC and NoC 0: brings the packed layer and then a core's share of the input pages from DRAM.
//
// Runtime arguments, uint32:
//   0 input: address of the interleaved DRAM buffer of activation pages
//   1 first page of this core's share
//   2 pages in this core's share, may be 0
//   3 bytes in a page, 64
//   4 weights: address of the interleaved DRAM buffer that holds the packed layer as its only page
//   5 bytes in the packed layer, a multiple of 64
#include "api/dataflow/dataflow_api.h"
#include "layout.h"

void kernel_main() {
    const uint32_t first = get_arg_val<uint32_t>(1);
    const uint32_t pages = get_arg_val<uint32_t>(2);
    const uint32_t page_bytes = get_arg_val<uint32_t>(3);
    const uint32_t weights_bytes = get_arg_val<uint32_t>(5);
    const InterleavedAddrGen<true> input = {.bank_base_address = get_arg_val<uint32_t>(0), .page_size = page_bytes};
    const InterleavedAddrGen<true> weights = {.bank_base_address = get_arg_val<uint32_t>(4),
                                              .page_size = weights_bytes};
    if (pages == 0) {
        return;
    }

    // The barrier before the first push below waits for this read too, so a compute processor that has received a page can use
    // the layer.
    noc_async_read(get_noc_addr(0, weights), get_write_ptr(kWeightsBuffer), weights_bytes);

    for (uint32_t page = 0; page < pages; page += kLanes) {
        const uint32_t lanes = pages - page < kLanes ? pages - page : kLanes;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            cb_reserve_back(kInputBuffer + lane, 1);
            noc_async_read(get_noc_addr(first + page + lane, input), get_write_ptr(kInputBuffer + lane), page_bytes);
        }
        noc_async_read_barrier();
        for (uint32_t lane = 0; lane < lanes; lane++) {
            cb_push_back(kInputBuffer + lane, 1);
        }
    }
}

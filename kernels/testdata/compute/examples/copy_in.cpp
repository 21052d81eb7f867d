// Pages of a buffer into a circular buffer, as later examples of tt-metal read them. Arguments: 0 address, 1 number of pages.
#include "api/dataflow/circular_buffer.h"
#include "api/dataflow/noc.h"
#include "api/tensor/noc_traits.h"

void kernel_main() {
    constexpr auto description = TensorAccessorArgs<0>();
    const auto pages = TensorAccessor(description, get_arg_val<uint32_t>(0));
    Noc noc;
    CircularBuffer cb(tt::CBIndex::c_0);
    constexpr NocOptions tagged = NocOptions::TXN_ID;
    for (uint32_t i = 0; i < get_arg_val<uint32_t>(1); i++) {
        cb.reserve_back(1);
        const uint32_t half = cb.get_tile_size() / 2;
        noc.async_read(pages, cb, half, {.page_id = i}, {.offset_bytes = 0});
        noc.async_read_barrier();
        // The other half with an id, to the back all the same.
        noc.async_read<tagged>(pages, use<CircularBuffer::AddrSelector::WRITE_PTR>(cb), half, {.page_id = i, .offset_bytes = half},
                               {.offset_bytes = half}, {.trid = 3});
        noc.async_read_barrier<tagged>({.trid = 3});
        cb.push_back(1);
    }
}

// Pages of a circular buffer to a buffer, as tt-metal's examples of elementwise operations write them: the API of data movement is there
// without an include. Arguments: 0 address, 1 number of pages.
#include <cstdint>

#if defined(NOC_OBJECTS)
#include "api/dataflow/circular_buffer.h"
#include "api/tensor/noc_traits.h"
#endif

void kernel_main() {
    constexpr auto cb = tt::CBIndex::c_0;
    constexpr auto description = TensorAccessorArgs<0>();
    const auto pages = TensorAccessor(description, get_arg_val<uint32_t>(0), get_tile_size(cb));
    for (uint32_t i = 0; i < get_arg_val<uint32_t>(1); i++) {
        cb_wait_front(cb, 1);
#if defined(NOC_OBJECTS)
        Noc().async_write<NocOptions::CUSTOM_VC>(CircularBuffer(cb), pages, get_tile_size(cb), {.offset_bytes = 0}, {.page_id = i}, {.vc = 1});
        Noc().async_writes_flushed();
        Noc().async_write_barrier();
#else
        noc_async_write_tile(i, pages, get_read_ptr(cb));
        noc_async_write_barrier();
#endif
        cb_pop_front(cb, 1);
    }
}

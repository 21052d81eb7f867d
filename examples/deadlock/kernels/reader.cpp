// The reader fills two circular buffers, a block of pages of the one and then a block of pages of the other.
// Arguments: 0 pages of each, 1 pages in a block.
#include <stdint.h>

#include "api/dataflow/dataflow_api.h"
#include "reprise/assert.h"
#include "reprise/print.h"

constexpr uint32_t values = 0, weights = 1, capacity = 4;  // the last in pages

__attribute__((noinline)) void fetch(uint32_t cb, uint32_t pages) {
    reprise_assert(pages <= capacity);
    for (uint32_t page = 0; page < pages; page++) {
        cb_reserve_back(cb, 1);
        volatile uint32_t* to = (volatile uint32_t*)get_write_ptr(cb);
        for (uint32_t i = 0; i < get_tile_size(cb) / 4; i++) {
            to[i] = 0x3F803F80; // ones, in bfloat16: in life they come from DRAM
        }
        cb_push_back(cb, 1);
        reprise_print("page %u of buffer %u", page, cb);
    }
}

void kernel_main() {
    const uint32_t pages = get_arg_val<uint32_t>(0), block = get_arg_val<uint32_t>(1);
    for (uint32_t done = 0; done < pages; done += block) {
        fetch(values, block);
        fetch(weights, block);
    }
}

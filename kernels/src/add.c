// Adds a number to every 32-bit word of the pages that pass from one circular buffer to another. Any processor.
//
// Unique arguments: 0 input circular buffer, 1 output circular buffer, 2 number of pages, 3 what to add.

#include "reprise/kernel.h"

void kernel_main(void) {
    uint32_t in = rp_arg(0), out = rp_arg(1), pages = rp_arg(2), addend = rp_arg(3);
    for (; pages != 0; pages--) {
        rp_cb_wait_front(in, 1);
        rp_cb_reserve_back(out, 1);
        const volatile uint32_t* from = rp_word(rp_cb_read_ptr(in));
        volatile uint32_t* to = rp_word(rp_cb_write_ptr(out));
        for (uint32_t n = rp_cb_page_size(in) / 4; n != 0; n--) {
            *to++ = *from++ + addend;
        }
        rp_cb_pop_front(in, 1);
        rp_cb_push_back(out, 1);
    }
}

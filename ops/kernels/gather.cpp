// Computes a share of the pages of a tensor by copying those of another in another order. BRISC or NCRISC.
//
// The pages of the result count four indices, the last one the fastest. A page comes from the sum of a first page and the product
// of each index and its step.
//
// Unique arguments: 0 first page, 1 number of pages. Common arguments: 0..2 sizes of the last three indices, 3 first page to copy,
// 4..7 steps, then the result and the tensor. Circular buffer 0 is only used as memory in L1: for kPages pages.

#include "tensor.h"

constexpr uint32_t kPages = 4;  // at a time

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    uint32_t sizes[3], steps[4];
    for (uint32_t i = 0; i < 3; i++) {
        sizes[i] = rp_common_arg(i);
    }
    for (uint32_t i = 0; i < 4; i++) {
        steps[i] = rp_common_arg(4 + i);
    }
    const uint32_t start = rp_common_arg(3);
    Tensor out, in;
    in.read(out.read(8, 0), 0);
    const uint32_t l1 = get_write_ptr(0), room = get_local_cb_interface(0).fifo_page_size;
    for (uint32_t page = first; page != end;) {
        const uint32_t count = end - page < kPages ? end - page : kPages;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t rest = page + i, from = start;
            for (uint32_t k = 3; k != 0; k--) {
                from += rest % sizes[k - 1] * steps[k];
                rest /= sizes[k - 1];
            }
            in.copy(from + rest * steps[0], l1 + i * room);
        }
        rp_wait_reads(noc_index);
        for (uint32_t i = 0; i < count; i++, page++) {
            const rp_place to = out.place(page);
            rp_noc_write(noc_index, to.coord, to.addr, l1 + i * room, out.bytes);
        }
        rp_wait_writes_sent(noc_index);
    }
    rp_wait_writes(noc_index);
}

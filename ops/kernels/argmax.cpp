// Finds the index of the largest element of each row, the first of equal ones. Computes a share
// of the pages of the result. BRISC or NCRISC.
//
// Unique arguments: 0 first page, 1 number of pages. Common arguments: the result, as many elements as there are rows, and
// the tensor to search. Circular buffer 0, of two pages, is only used as memory in L1.

#include "ordered.h"
#include "tensor.h"

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out, a;
    a.read(out.read(0, get_write_ptr(0) + get_local_cb_interface(0).fifo_page_size), get_write_ptr(0));
    for (uint32_t page = first; page != end; page++) {
        clear(out);
        each_run(out, page, [&](const Run& r) {
            const uint32_t row = ((r.n * out.dims[1] + r.c) * out.dims[2] + r.h) * out.dims[3] + r.w;
            for (uint32_t i = 0; i < r.count; i++) {
                uint32_t best = 0, most = 0;
                for (uint32_t w = 0; w < a.dims[3];) {
                    uint32_t run;
                    uint32_t x = a.find((row + i) / a.dims[2], (row + i) % a.dims[2], w, &run);
                    for (; run != 0 && w < a.dims[3]; run--, w++, x += size_of(a.type)) {
                        const uint32_t v = ordered(a.type, load(a.type, x));
                        if (w == 0 || v > most) {
                            most = v;
                            best = w;
                        }
                    }
                }
                store(out.type, r.addr + i * size_of(out.type), best);
            }
        });
        out.flush(page);
    }
    rp_wait_writes(noc_index);
}

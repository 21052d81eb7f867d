// Computes a share of a tensor's pages from one or two others, element by element: copies, and operations on integers. BRISC or
// NCRISC.
//
// Unique arguments: 0 first page, 1 number of pages. Common arguments: 0 operation, 1..4 start of the result in
// the first operand, then the result, the first and, if the operation has two, the second operand. Circular buffers are only used as memory in L1:
// with one operand 0, of two pages; with two 0 and 1 for them and 2 for the result.

#include "compute.h"

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    const uint32_t op = rp_common_arg(0);
    const uint32_t begin[4] = {rp_common_arg(1), rp_common_arg(2), rp_common_arg(3), rp_common_arg(4)};
    const bool two = op >= kAdd;
    Tensor out, a, b;
    uint32_t at = out.read(5, two ? get_write_ptr(2) : get_write_ptr(0) + get_local_cb_interface(0).fifo_page_size);
    at = a.read(at, get_write_ptr(0));
    if (two) {
        b.read(at, get_write_ptr(1));
    }
    const uint32_t type = a.type, size = size_of(type), to_size = size_of(out.type);
    // Unsigned numbers have no sign.
    const bool same = op == kCopy || (op == kRelu && type < kInt32);
    for (uint32_t page = first; page != end; page++) {
        clear(out);
        each_run(out, page, [&](const Run& r) {
            for (uint32_t i = 0; i < r.count;) {
                uint32_t n, w = (begin[3] + r.w + i) % a.dims[3];
                uint32_t x = a.find(a.matrix(begin[0] + r.n, begin[1] + r.c), (begin[2] + r.h) % a.dims[2], w, &n);
                uint32_t step = size;
                if (a.dims[3] == 1) {
                    n = r.count;
                    step = 0;
                } else if (n > a.dims[3] - w) {
                    n = a.dims[3] - w;
                }
                uint32_t y = 0, y_step = 0;
                if (two) {
                    uint32_t m;
                    w = (r.w + i) % b.dims[3];
                    y = b.find(b.matrix(r.n, r.c), r.h % b.dims[2], w, &m);
                    if (b.dims[3] == 1) {
                        m = r.count;
                    } else {
                        y_step = size;
                        if (m > b.dims[3] - w) {
                            m = b.dims[3] - w;
                        }
                    }
                    n = m < n ? m : n;
                }
                if (n > r.count - i) {
                    n = r.count - i;
                }
                for (; n != 0; n--, i++, x += step, y += y_step) {
                    const uint32_t v = load(type, x), to = r.addr + i * to_size;
                    if (!same) {
                        store(out.type, to, compute(op, v, y != 0 ? load(type, y) : 0));
                    } else {
                        store(out.type, to, v);
                    }
                }
            }
        });
        out.flush(page);
    }
    rp_wait_writes(noc_index);
}

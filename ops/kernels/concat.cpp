// Computes a share of the pages of tensors concatenated along a dimension. BRISC or NCRISC.
//
// Unique arguments: 0 first page, 1 number of pages. Common arguments: 0 dimension, 1 number of tensors, then the result
// and the tensors. Circular buffers are only used as memory in L1: 0 and 1 each hold a page of a tensor, even tensors in 0 and
// odd ones in 1; 2 holds a page of the result; 3 the structs of the tensors.

#include "tensor.h"

static_assert(sizeof(Tensor) == 72, "the host gives room for them");

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    const uint32_t along = rp_common_arg(0), tensors = rp_common_arg(1);
    Tensor out;
    Tensor* in = reinterpret_cast<Tensor*>(get_write_ptr(3));
    uint32_t at = out.read(2, get_write_ptr(2));
    for (uint32_t k = 0; k < tensors; k++) {
        at = in[k].read(at, get_write_ptr(k % 2));
    }
    const uint32_t type = out.type, size = size_of(type);
    uint32_t holder[2] = {0, 1};  // tensor whose page each buffer holds
    for (uint32_t page = first; page != end; page++) {
        clear(out);
        each_run(out, page, [&](const Run& r) {
            for (uint32_t i = 0; i < r.count;) {
                uint32_t index[4] = {r.n, r.c, r.h, r.w + i}, k = 0;
                while (index[along] >= in[k].dims[along]) {
                    index[along] -= in[k++].dims[along];
                }
                Tensor& from = in[k];
                if (holder[k % 2] != k) {
                    holder[k % 2] = k;
                    from.cached = 0xFFFFFFFF;
                }
                uint32_t n, x = from.find(from.matrix(index[0], index[1]), index[2], index[3], &n);
                if (n > from.dims[3] - index[3]) {
                    n = from.dims[3] - index[3];
                }
                if (n > r.count - i) {
                    n = r.count - i;
                }
                for (; n != 0; n--, i++, x += size) {
                    // Copied unchanged: bfloat16 isn't rounded again, and NaNs keep their bits.
                    store(size == 2 ? kUint16 : type, r.addr + i * size, size == 2 ? load(kUint16, x) : load(type, x));
                }
            }
        });
        out.flush(page);
    }
    rp_wait_writes(noc_index);
}

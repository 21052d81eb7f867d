// Computes a share of the pages of tensors concatenated along a dimension. BRISC or NCRISC.
//
// Unique arguments: 0 first page, 1 number of pages. Common arguments: 0 dimension, 1 number of tensors, 2 how many pages are copied
// at a time if each page of the result is one of a tensor, otherwise 0, then the result and the tensors. Circular buffers are only used as memory in L1: 0 and 1 each hold a page of a tensor, even tensors in 0 and
// odd ones in 1; 2 holds a page of the result; 3 the structs of the tensors. Pages that are copied
// are in 0, in two halves, and 1 and 2 aren't there.

#include "tensor.h"

static_assert(sizeof(Tensor) == 72, "the host gives room for them");

// whole copies pages: it reads into one half of the memory while writes from the other one are on their way.
static void whole(const Tensor& out, const Tensor* in, uint32_t along, uint32_t first, uint32_t end, uint32_t half) {
    const uint32_t memory = get_write_ptr(0), room = get_local_cb_interface(0).fifo_page_size;
    for (uint32_t i = 0; i < 2 * half; i++) {  // zeros from a page to the next one, which no read changes
        for (uint32_t k = out.bytes & ~3u; k < out.stride; k += 4) {
            *reinterpret_cast<uint32_t*>(memory + i * room + k) = 0;
        }
    }
    rp_publish();
    uint32_t next = first, written = first;
    for (uint32_t turn = 0; written != end; turn ^= 1) {
        uint32_t to = memory + turn * half * room;
        for (uint32_t i = 0; i < half && next != end; i++, next++, to += room) {
            const uint32_t line = next / out.wide, matrix = line / out.high;
            uint32_t at[4] = {matrix / out.dims[1], matrix % out.dims[1], line % out.high, next % out.wide};
            const Tensor* t = in;
            for (;; t++) {
                const uint32_t size = along == 3 ? t->wide : along == 2 ? t->high : t->dims[along];
                if (at[along] < size) {
                    break;
                }
                at[along] -= size;
            }
            t->copy(((at[0] * t->dims[1] + at[1]) * t->high + at[2]) * t->wide + at[3], to);
        }
        rp_wait_reads(noc_index);
        rp_wait_writes_sent(noc_index);
        for (uint32_t from = memory + turn * half * room; written != next; written++, from += room) {
            const rp_place p = out.place(written);
            rp_noc_write(noc_index, p.coord, p.addr, from, out.stride);
        }
    }
    rp_wait_writes(noc_index);
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    const uint32_t along = rp_common_arg(0), tensors = rp_common_arg(1);
    Tensor out;
    Tensor* in = reinterpret_cast<Tensor*>(get_write_ptr(3));
    const uint32_t half = rp_common_arg(2);
    uint32_t at = out.read(3, half == 0 ? get_write_ptr(2) : 0);
    for (uint32_t k = 0; k < tensors; k++) {
        at = in[k].read(at, half == 0 ? get_write_ptr(k % 2) : 0);
    }
    if (half != 0) {
        whole(out, in, along, first, end, half);
        return;
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

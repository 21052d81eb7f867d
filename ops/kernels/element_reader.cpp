// Reads the elements of one or two operands in any layout for the engines, to kLeft and kRight, in the order in which the result's
// pages have them, from a new tile on for each page. An operand's dimension of 1 is repeated. BRISC.
//
// Unique arguments: 0 first tile, 1 number of tiles. Common arguments: 0 number of operands, then the result and the operands.
// Circular buffers 3 and 4 are only used as memory in L1, of a page of each operand.

#include "blocks.h"
#include "elements.h"

// same reports whether an operand has the elements of a page where the result has them.
static bool same(const Tensor& t, const Tensor& out) {
    bool equal = ((t.flags ^ out.flags) & kFlagTile) == 0 && t.page_width == out.page_width;
    for (uint32_t i = 0; i < 4; i++) {
        equal = equal && t.dims[i] == out.dims[i];
    }
    return equal;
}

// read brings an operand's elements of a page of the result to a circular buffer.
static void read(Tensor& t, Tensor& out, uint32_t page, uint32_t cb, bool whole) {
    const uint32_t tiles = tiles_of(out), size = size_of(out.type);
    cb_reserve_back(cb, tiles);
    out.scratch = get_write_ptr(cb);
    if (whole && out.bytes == out.stride) {
        t.copy(page, out.scratch);
        noc_async_read_barrier();
        cb_push_back(cb, tiles);
        return;
    }
    clear(out);  // padding becomes zero
    each_run(out, page, [&](const Run& r) {
        for (uint32_t i = 0; i < r.count;) {
            uint32_t n, w = (r.w + i) % t.dims[3];
            const uint32_t x = t.find(t.matrix(r.n, r.c), r.h % t.dims[2], w, &n);
            if (t.dims[3] == 1) {
                n = r.count;
            } else if (n > t.dims[3] - w) {
                n = t.dims[3] - w;
            }
            if (n > r.count - i) {
                n = r.count - i;
            }
            copy_elements(r.addr + i * size, x, t.dims[3] == 1 ? 0 : size, n, size);
            i += n;
        }
    });
    rp_publish();
    cb_push_back(cb, tiles);
}

void kernel_main() {
    Tensor out, a, b;
    const bool two = rp_common_arg(0) == 2;
    const uint32_t at = a.read(out.read(1, 0), get_write_ptr(3));
    if (two) {
        b.read(at, get_write_ptr(4));
    }
    const bool whole_a = same(a, out), whole_b = two && same(b, out);
    const uint32_t tiles = tiles_of(out), first = rp_arg(0) / tiles, end = first + rp_arg(1) / tiles;
    for (uint32_t page = first; page != end; page++) {
        read(a, out, page, kLeft, whole_a);
        if (two) {
            read(b, out, page, kRight, whole_b);
        }
    }
}

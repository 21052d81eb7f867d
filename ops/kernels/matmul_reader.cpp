// Reads the tiles of a product of matrices for the engines. BRISC.
//
// For each block of the result, and each index of the inner dimension, a tile of the left operand goes to kLeft, and one for each
// tile of the block to kRight, which always gets kBlock pages, so that they follow one another in L1.
//
// Unique arguments: 0 first tile of the result, 1 number of tiles. Common arguments: the result, the left and the right operand.

#include "blocks.h"
#include "tensor.h"

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out, a, b;
    b.read(a.read(out.read(0, 0), 0), 0);
    for (uint32_t page = first; page != end;) {
        const uint32_t count = block_width(page, end, out.wide);
        const uint32_t row = page / out.wide, matrix = row / out.high;
        const uint32_t n = matrix / out.dims[1], c = matrix % out.dims[1];
        uint32_t left = (a.matrix(n, c) * a.high + row % out.high) * a.wide;
        uint32_t right = b.matrix(n, c) * b.high * b.wide + page % out.wide;
        for (uint32_t k = 0; k < a.wide; k++, left++, right += b.wide) {
            cb_reserve_back(kLeft, 1);
            a.copy(left, get_write_ptr(kLeft));
            cb_reserve_back(kRight, kBlock);
            for (uint32_t i = 0; i < count; i++) {
                b.copy(right + i, get_write_ptr(kRight) + i * b.bytes);
            }
            noc_async_read_barrier();
            cb_push_back(kLeft, 1);
            cb_push_back(kRight, kBlock);
        }
        page += count;
    }
}

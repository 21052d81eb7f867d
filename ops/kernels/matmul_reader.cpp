// Reads the tiles of a product of matrices for the engines. BRISC.
//
// For each block of the result, and each index of the inner dimension, a tile of the left operand goes to kLeft, and one for each
// tile of the block to kRight, which always gets kBlock pages, so that they follow one another in L1.
//
// With a bias, its tiles follow those of the right operand, and kConstant gets a tile with ones in its first column.
//
// Unique arguments: 0 first tile of the result, 1 number of tiles. Common arguments: 0 whether there is a bias, then the result,
// the left and the right operand, and the bias, whose matrices have one row.

#include "product.h"
#include "transposed.h"

// read_row is read_block for tiles of which each is step pages after the one before.
static inline void read_row(const Tensor& t, uint32_t page, uint32_t step, uint32_t count) {
    cb_reserve_back(kRight, kBlock);
    for (uint32_t i = 0; i < count; i++, page += step) {
        t.copy(page, get_write_ptr(kRight) + i * t.bytes);
    }
    noc_async_read_barrier();
    cb_push_back(kRight, kBlock);
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    const bool biased = rp_common_arg(0) != 0;
    Tensor out, a, b, bias;
    const uint32_t at = b.read(a.read(out.read(1, 0), 0), 0);
    if (biased) {
        bias.read(at, 0);
        cb_reserve_back(kConstant, 1);
        ones(get_write_ptr(kConstant), size_of(a.type));
        cb_push_back(kConstant, 1);
    }
    const Pages of_a(a), of_b(b);
    const uint32_t inner = a.flags & kFlagTransposed ? a.high : a.wide;
    for (uint32_t page = first; page != end;) {
        const uint32_t count = block_width(page, end, out.wide);
        const uint32_t row = page / out.wide, matrix = row / out.high;
        const uint32_t n = matrix / out.dims[1], c = matrix % out.dims[1];
        uint32_t left = a.matrix(n, c) * of_a.matrix + row % out.high * of_a.down;
        uint32_t right = b.matrix(n, c) * of_b.matrix + page % out.wide * of_b.right;
        for (uint32_t k = 0; k < inner; k++, left += of_a.right, right += of_b.down) {
            cb_reserve_back(kLeft, 1);
            a.copy(left, get_write_ptr(kLeft));
            read_row(b, right, of_b.right, count);
            cb_push_back(kLeft, 1);
        }
        if (biased) {
            read_block(bias, bias.matrix(n, c) * bias.wide + page % out.wide, count);
        }
        page += count;
    }
}

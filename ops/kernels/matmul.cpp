// Computes a share of the pages of a product of matrices of integers, which are summed in 32 bits and converted once, at the end.
// BRISC or NCRISC.
//
// Unique arguments: 0 first page, 1 number of pages. Common arguments: the result, the left and the right matrix.
// Circular buffers are only used as memory in L1: 0 left, 1 right, 2 result, 3 sums.

#include "tensor.h"
#include "transposed.h"

constexpr uint32_t kBlock = 32;  // indices at a time: those of a tile

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out, a, b;
    b.read(a.read(out.read(0, get_write_ptr(2)), get_write_ptr(0)), get_write_ptr(1));
    uint32_t* const sums = reinterpret_cast<uint32_t*>(get_write_ptr(3));
    const bool left_turned = a.flags & kFlagTransposed, right_turned = b.flags & kFlagTransposed;
    const uint32_t inner = a.dims[left_turned ? 2 : 3], type = a.type, size = size_of(type);
    const bool tile = out.flags & kFlagTile;
    for (uint32_t page = first; page != end; page++) {
        const uint32_t row = page / out.wide, w = page % out.wide * out.page_width;
        const uint32_t matrix = row / out.high, n = matrix / out.dims[1], c = matrix % out.dims[1];
        const uint32_t left = a.matrix(n, c), right = b.matrix(n, c);
        const uint32_t h = row % out.high * (tile ? 32 : 1);
        uint32_t rows = tile ? 32 : 1, columns = out.page_width;
        if (rows > out.dims[2] - h) {
            rows = out.dims[2] - h;
        }
        if (columns > out.dims[3] - w) {
            columns = out.dims[3] - w;
        }
        for (uint32_t i = 0; i < rows * columns; i++) {
            sums[i] = 0;
        }
        for (uint32_t k0 = 0; k0 < inner; k0 += kBlock) {
            const uint32_t k1 = inner - k0 < kBlock ? inner : k0 + kBlock;
            for (uint32_t r = 0; r < rows; r++) {
                uint32_t run, row_of_left[kBlock];
                for (uint32_t k = k0; k < k1; k++) {
                    row_of_left[k - k0] = load(type, left_turned ? a.find(left, k, h + r, &run) : a.find(left, h + r, k, &run));
                }
                for (uint32_t i = 0; right_turned && i < columns; i++) {
                    for (uint32_t k = k0; k < k1;) {
                        uint32_t y = b.find(right, w + i, k, &run);
                        for (; run != 0 && k < k1; run--, k++, y += size) {
                            sums[r * columns + i] += row_of_left[k - k0] * load(type, y);
                        }
                    }
                }
                for (uint32_t k = k0; !right_turned && k < k1; k++) {
                    const uint32_t x = row_of_left[k - k0];
                    for (uint32_t i = 0; i < columns;) {
                        uint32_t y = b.find(right, k, w + i, &run);
                        for (; run != 0 && i < columns; run--, i++, y += size) {
                            sums[r * columns + i] += x * load(type, y);
                        }
                    }
                }
            }
        }
        clear(out);
        each_run(out, page, [&](const Run& r) {
            for (uint32_t i = 0; i < r.count; i++) {
                store(out.type, r.addr + i * size_of(out.type), sums[(r.h - h) * columns + r.w - w + i]);
            }
        });
        out.flush(page);
    }
    rp_wait_writes(noc_index);
}

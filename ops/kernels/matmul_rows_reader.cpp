// Reads the operands of a product of matrices in any layout for the engines, as matmul_reader.cpp does: tiles are made of rows.
// BRISC.
//
// Unique arguments: 0 first tile of the result, 1 number of tiles. Common arguments: the result, the left and the right operand.
// Circular buffers 4 and 5 are only used as memory in L1, of a page of each operand.

#include "blocks.h"
#include "elements.h"
#include "transposed.h"

// read brings tile row, column of an operand's matrix to an address, with zeros outside of the matrix. Of a transposed operand, it is
// not the tile that is transposed but its place.
static void read(Tensor& t, uint32_t matrix, uint32_t row, uint32_t column, uint32_t to) {
    if (t.flags & kFlagTransposed) {
        const uint32_t other = row;
        row = column;
        column = other;
    }
    if (t.flags & kFlagTile) {
        t.copy((matrix * t.high + row) * t.wide + column, to);
        return;
    }
    const uint32_t size = size_of(t.type);
    for (uint32_t i = 0; i < 64; i++) {  // 4 faces of 16 rows; of a row of the tile the left face comes first
        const uint32_t y = i >> 1, half = i & 1, h = row * 32 + y, w = column * 32 + half * 16;
        const uint32_t at = to + ((y / 16 * 2 + half) * 256 + y % 16 * 16) * size;
        const uint32_t count = h >= t.dims[2] || w >= t.dims[3] ? 0 : t.dims[3] - w < 16 ? t.dims[3] - w : 16;
        for (uint32_t k = 0; k < count;) {
            uint32_t n;
            const uint32_t x = t.find(matrix, h, w + k, &n);
            if (n > count - k) {
                n = count - k;
            }
            copy_elements(at + k * size, x, size, n, size);
            k += n;
        }
        for (uint32_t k = count * size; k < 16 * size; k += 2) {
            *reinterpret_cast<volatile uint16_t*>(at + k) = 0;
        }
    }
    rp_publish();
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out, a, b;
    b.read(a.read(out.read(0, 0), get_write_ptr(4)), get_write_ptr(5));
    const uint32_t wide = (out.dims[3] + 31) / 32, high = (out.dims[2] + 31) / 32, inner = (a.dims[a.flags & kFlagTransposed ? 2 : 3] + 31) / 32;
    for (uint32_t page = first; page != end;) {
        const uint32_t count = block_width(page, end, wide);
        const uint32_t row = page / wide, matrix = row / high;
        const uint32_t n = matrix / out.dims[1], c = matrix % out.dims[1];
        for (uint32_t k = 0; k < inner; k++) {
            cb_reserve_back(kLeft, 1);
            cb_reserve_back(kRight, kBlock);
            read(a, a.matrix(n, c), row % high, k, get_write_ptr(kLeft));
            for (uint32_t i = 0; i < count; i++) {
                read(b, b.matrix(n, c), k, page % wide + i, get_write_ptr(kRight) + i * 1024 * size_of(b.type));
            }
            noc_async_read_barrier();
            cb_push_back(kLeft, 1);
            cb_push_back(kRight, kBlock);
        }
        page += count;
    }
}

// Reads the tiles of a rotary embedding for the engines. For each tile of the result, kLeft gets the tile there and the one half a
// row of tiles away, and kRight those of the cosines and sines. BRISC.
//
// Unique arguments: 0 first tile of the result, 1 number of tiles. Common arguments: 0 position, for all rows, 1 whether there is
// one, otherwise row i takes row i of the cosines and sines, then the result, the tensor, cosines and sines.

#include "blocks.h"
#include "tile_rows.h"

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    const bool one = rp_common_arg(1) != 0;
    Tensor out, a, cosines, sines;
    sines.read(cosines.read(a.read(out.read(2, 0), 0), 0), 0);
    uint32_t position = rp_common_arg(0);
    if (position >= cosines.dims[2]) {
        position = cosines.dims[2] - 1;
    }
    const uint32_t half = out.wide / 2;
    for (uint32_t page = first; page != end; page++) {
        const uint32_t row = page / out.wide, column = page % out.wide, matrix = row / out.high;
        const uint32_t n = matrix / out.dims[1], c = matrix % out.dims[1];
        const uint32_t from = one ? position / 32 : row % out.high;
        const uint32_t angle = (cosines.matrix(n, c) * cosines.high + from) * cosines.wide + column;
        cb_reserve_back(kLeft, 2);
        a.copy(page, get_write_ptr(kLeft));
        a.copy(column < half ? page + half : page - half, get_write_ptr(kLeft) + a.bytes);
        cb_reserve_back(kRight, 2);
        const uint32_t right = get_write_ptr(kRight);
        cosines.copy(angle, right);
        sines.copy(angle, right + sines.bytes);
        noc_async_read_barrier();
        if (one) {
            repeat_row(right, position % 32, size_of(a.type));
            repeat_row(right + sines.bytes, position % 32, size_of(a.type));
        }
        cb_push_back(kLeft, 2);
        cb_push_back(kRight, 2);
    }
}

// Writes the tiles that the engines leave in kOut to a tensor in rows, with zeros in its padding. A row of tiles is written at once.
// NCRISC.
//
// Unique arguments: 0 first tile, 1 number of tiles: whole rows of tiles. Common arguments: the tensor. Circular buffer 6 is only
// used as memory in L1, of a page.

#include "blocks.h"
#include "elements.h"

void kernel_main() {
    Tensor out;
    out.read(0, get_write_ptr(6));
    const uint32_t wide = (out.dims[3] + 31) / 32, high = (out.dims[2] + 31) / 32, size = size_of(out.type);
    const uint32_t first = rp_arg(0) / wide, end = first + rp_arg(1) / wide;
    for (uint32_t row = first; row != end; row++) {
        cb_wait_front(kOut, wide);
        rp_invalidate_l1();
        const uint32_t tiles = get_read_ptr(kOut), top = row % high * 32;
        const uint32_t rows = out.dims[2] - top < 32 ? out.dims[2] - top : 32;
        for (uint32_t y = 0; y < rows; y++) {
            for (uint32_t p = 0; p < out.wide; p++) {
                const uint32_t begin = p * out.page_width, left = out.dims[3] - begin;
                const uint32_t count = left < out.page_width ? left : out.page_width;
                clear(out);
                for (uint32_t k = 0; k < count;) {
                    const uint32_t w = begin + k, n = 16 - w % 16 < count - k ? 16 - w % 16 : count - k;
                    const uint32_t from = tiles + (w / 32 * 1024 + (y / 16 * 2 + w / 16 % 2) * 256 + y % 16 * 16 + w % 16) * size;
                    copy_elements(out.scratch + k * size, from, size, n, size);
                    k += n;
                }
                out.flush((row / high * out.high + top + y) * out.wide + p);
            }
        }
        cb_pop_front(kOut, wide);
    }
    rp_wait_writes(noc_index);
}

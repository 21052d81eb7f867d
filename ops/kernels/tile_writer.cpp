// Writes the tiles that the engines leave in kOut to a tensor, with zeros in its padding. NCRISC.
//
// Unique arguments: 0 first tile, 1 number of tiles. Common arguments: the tensor.

#include "blocks.h"
#include "tensor.h"

// clear_padding sets what lies outside of the first rows and columns of a tile to zero.
static void clear_padding(uint32_t tile, uint32_t rows, uint32_t columns, uint32_t size) {
    for (uint32_t i = 0; i < 64; i++, tile += 16 * size) {  // 4 faces of 16 rows
        const uint32_t row = (i >> 5) * 16 + i % 16, column = (i >> 4 & 1) * 16;
        for (uint32_t w = row >= rows || column >= columns ? 0 : columns - column; w < 16; w++) {
            if (size == 2) {
                *reinterpret_cast<volatile uint16_t*>(tile + 2 * w) = 0;
            } else {
                *reinterpret_cast<volatile uint32_t*>(tile + 4 * w) = 0;
            }
        }
    }
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out;
    out.read(0, 0);
    for (uint32_t page = first; page != end; page++) {
        const uint32_t rows = out.dims[2] - page / out.wide % out.high * 32, columns = out.dims[3] - page % out.wide * 32;
        cb_wait_front(kOut, 1);
        const uint32_t tile = get_read_ptr(kOut);
        if (rows < 32 || columns < 32) {
            clear_padding(tile, rows, columns, size_of(out.type));
            rp_publish();
        }
        const rp_place to = out.place(page);
        rp_noc_write(noc_index, to.coord, to.addr, tile, out.bytes);
        rp_wait_writes_sent(noc_index);
        cb_pop_front(kOut, 1);
    }
    rp_wait_writes(noc_index);
}

// Writes the rows of tiles that the engines leave of an attention, with zeros in the padding. NCRISC.
//
// Unique arguments: 0 first row of tiles, 1 number of rows of tiles. Common arguments: the result.

#include "attention.h"
#include "padding.h"
#include "tensor.h"

void kernel_main() {
    Tensor out;
    out.read(0, 0);
    const uint32_t first = rp_arg(0) * out.wide, end = first + rp_arg(1) * out.wide;
    for (uint32_t page = first; page != end; page++) {
        const uint32_t rows = out.dims[2] - page / out.wide % out.high * 32, columns = out.dims[3] - page % out.wide * 32;
        cb_wait_front(kResult, 1);
        const uint32_t tile = get_read_ptr(kResult);
        if (rows < 32 || columns < 32) {
            fill_padding(tile, rows, columns, size_of(out.type), 0);
            rp_publish();
        }
        const rp_place to = out.place(page);
        rp_noc_write(noc_index, to.coord, to.addr, tile, out.bytes);
        rp_wait_writes_sent(noc_index);
        cb_pop_front(kResult, 1);
    }
    rp_wait_writes(noc_index);
}

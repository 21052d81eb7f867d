// Writes the tiles that the engines leave in kOut to a tensor, with zeros in its padding. NCRISC.
//
// Unique arguments: 0 first tile, 1 number of tiles. Common arguments: the tensor.

#include "blocks.h"
#include "padding.h"
#include "tensor.h"

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out;
    out.read(0, 0);
    for (uint32_t page = first; page != end; page++) {
        const uint32_t rows = out.dims[2] - page / out.wide % out.high * 32, columns = out.dims[3] - page % out.wide * 32;
        cb_wait_front(kOut, 1);
        const uint32_t tile = get_read_ptr(kOut);
        if (rows < 32 || columns < 32) {
            fill_padding(tile, rows, columns, size_of(out.type), 0);
            rp_publish();
        }
        const rp_place to = out.place(page);
        rp_noc_write(noc_index, to.coord, to.addr, tile, out.bytes);
        rp_wait_writes_sent(noc_index);
        cb_pop_front(kOut, 1);
    }
    rp_wait_writes(noc_index);
}

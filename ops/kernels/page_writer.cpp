// Writes the elements that the engines leave in kOut to the pages of a tensor in any layout, from a new tile on for each page.
// NCRISC.
//
// Unique arguments: 0 first tile, 1 number of tiles. Common arguments: the tensor.

#include "blocks.h"
#include "elements.h"

void kernel_main() {
    Tensor out;
    out.read(0, 0);
    const uint32_t tiles = tiles_of(out), first = rp_arg(0) / tiles, end = first + rp_arg(1) / tiles;
    for (uint32_t page = first; page != end; page++) {
        cb_wait_front(kOut, tiles);
        const rp_place to = out.place(page);
        rp_noc_write(noc_index, to.coord, to.addr, get_read_ptr(kOut), out.stride);  // padding up to the next page is zero
        rp_wait_writes_sent(noc_index);
        cb_pop_front(kOut, tiles);
    }
    rp_wait_writes(noc_index);
}

// Writes the rows of tiles to the first rows of a cache's matrices in one batch. Nothing else of the cache is touched. BRISC or
// NCRISC.
//
// Unique arguments: 0 first tile of the rows, 1 number of tiles. Common arguments: 0 batch, beyond the last of which nothing is
// written, then the cache and the rows. Circular buffer 0 is only used as memory in L1.

#include "tile_rows.h"

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1), batch = rp_common_arg(0);
    Tensor cache, in;
    in.read(cache.read(1, 0), 0);
    if (batch >= cache.dims[0]) {
        return;
    }
    const uint32_t tile = get_write_ptr(0);
    for (uint32_t page = first; page != end; page++) {
        in.copy(page, tile);
        const uint32_t row = page / in.wide % in.high, left = in.dims[2] - row * 32;
        const uint32_t matrix = batch * cache.dims[1] + page / in.wide / in.high;
        const rp_place to = cache.place((matrix * cache.high + row) * cache.wide + page % in.wide);
        rp_wait_reads(noc_index);
        if (left >= 32) {
            rp_noc_write(noc_index, to.coord, to.addr, tile, in.bytes);
        } else {
            for (uint32_t i = 0; i < left; i++) {
                write_row(to, i, tile, i, size_of(in.type));
            }
        }
        rp_wait_writes_sent(noc_index);
    }
    rp_wait_writes(noc_index);
}

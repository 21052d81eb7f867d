// Writes a row of tiles to each matrix of a cache, at a row position. Nothing else of the cache is touched. BRISC or NCRISC.
//
// A piece of the work is a tile of such a row: pieces count the tiles of a row first, then the matrices of the cache.
//
// Unique arguments: 0 first piece, 1 number of pieces. Common arguments: 0 position, beyond the end of which nothing is written,
// then the cache and the rows: row 0 of a matrix for each of the cache, or a row of one matrix for each batch. Circular buffer 0 is
// only used as memory in L1.

#include "tile_rows.h"

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1), position = rp_common_arg(0);
    Tensor cache, in;
    in.read(cache.read(1, 0), 0);
    if (position >= cache.dims[2]) {
        return;
    }
    const uint32_t tile = get_write_ptr(0);
    for (uint32_t piece = first; piece != end; piece++) {
        const uint32_t matrix = piece / cache.wide, column = piece % cache.wide;
        const uint32_t n = matrix / cache.dims[1], row = n % in.dims[2];
        in.copy((in.matrix(n, matrix % cache.dims[1]) * in.high + row / 32) * in.wide + column, tile);
        rp_wait_reads(noc_index);
        const rp_place to = cache.place((matrix * cache.high + position / 32) * cache.wide + column);
        write_row(to, position % 32, tile, row % 32, size_of(cache.type));
        rp_wait_writes_sent(noc_index);
    }
    rp_wait_writes(noc_index);
}

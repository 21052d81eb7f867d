// Writes the rows of tiles that the engines leave of an attention, with zeros in the padding. NCRISC.
//
// Unique arguments: 0 first row of tiles, 1 number of rows of tiles. Common arguments: the result.

#include "attention.h"
#include "tile_writer.h"

void kernel_main() {
    Tensor out;
    out.read(0, 0);
    const uint32_t first = rp_arg(0) * out.wide, end = first + rp_arg(1) * out.wide;
    write_tiles(out, kResult, first, end);
}

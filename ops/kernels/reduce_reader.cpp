// Reads the tiles of a tensor for the engines to reduce, those of each tile of the result in turn, to kLeft; kConstant gets the tile
// of factors that the engines need. BRISC.
//
// Unique arguments: 0 first tile of the result, 1 number of tiles. Common arguments: 0 whether rows are reduced, otherwise columns, 1
// what padding is for the reduction, as the bits of an element, 2 the factor of each element, as those of a word of elements, then
// the result and the tensor.

#include "blocks.h"
#include "padding.h"
#include "tensor.h"

// factors stores a tile with a factor in row 0 of each face.
static void factors(uint32_t tile, uint32_t size, uint32_t factor) {
    const uint32_t words = 4 * size;  // of a row of a face
    for (uint32_t i = 0; i < 64 * words; i++) {
        const bool first = i / words % 16 == 0;
        reinterpret_cast<volatile uint32_t*>(tile)[i] = first ? factor : 0;
    }
    rp_publish();
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    const bool rows = rp_common_arg(0) != 0;
    const uint32_t padding = rp_common_arg(1);
    Tensor out, a;
    a.read(out.read(3, 0), 0);
    const uint32_t size = size_of(a.type), count = rows ? a.high : a.wide, step = rows ? a.wide : 1;
    cb_reserve_back(kConstant, 1);
    factors(get_write_ptr(kConstant), size, rp_common_arg(2));
    cb_push_back(kConstant, 1);
    for (uint32_t page = first; page != end; page++) {
        uint32_t from = rows ? page / a.wide * a.high * a.wide + page % a.wide : page * a.wide;
        for (uint32_t k = 0; k < count; k++, from += step) {
            const uint32_t high = a.dims[2] - from / a.wide % a.high * 32, wide = a.dims[3] - from % a.wide * 32;
            cb_reserve_back(kLeft, 1);
            a.copy(from, get_write_ptr(kLeft));
            noc_async_read_barrier();
            if (padding != 0 && (high < 32 || wide < 32)) {
                fill_padding(get_write_ptr(kLeft), high, wide, size, padding);
                rp_publish();
            }
            cb_push_back(kLeft, 1);
        }
    }
}

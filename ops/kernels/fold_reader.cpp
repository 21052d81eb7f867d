// Reads the tiles of a tensor for the engines to fold along a dimension before the last two, those of each tile of the result in turn,
// to kLeft. BRISC.
//
// Unique arguments: 0 first tile of the result, 1 number of tiles. Common arguments: 0 number of elements to fold, 1 tiles from
// one to the next, then the result and the tensor.

#include "blocks.h"
#include "tensor.h"

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out, a;
    a.read(out.read(2, 0), 0);
    const uint32_t count = rp_common_arg(0), step = rp_common_arg(1);
    for (uint32_t page = first; page != end; page++) {
        uint32_t from = page / step * count * step + page % step;
        for (uint32_t k = 0; k < count; k++, from += step) {
            cb_reserve_back(kLeft, 1);
            a.copy(from, get_write_ptr(kLeft));
            noc_async_read_barrier();
            cb_push_back(kLeft, 1);
        }
    }
}

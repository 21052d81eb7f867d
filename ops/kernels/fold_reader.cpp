// Reads the tiles of a tensor for the engines to fold along one of its first two dimensions, those of each tile of the result in turn,
// to kLeft. BRISC.
//
// Unique arguments: 0 first tile of the result, 1 number of tiles. Common arguments: 0 whether the second dimension is folded, otherwise
// the first one, then the result and the tensor.

#include "blocks.h"
#include "tensor.h"

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out, a;
    a.read(out.read(1, 0), 0);
    const uint32_t matrix = a.wide * a.high;
    const bool second = rp_common_arg(0) != 0;
    const uint32_t count = second ? a.dims[1] : a.dims[0], step = second ? matrix : matrix * a.dims[1];
    for (uint32_t page = first; page != end; page++) {
        uint32_t from = second ? page / matrix * a.dims[1] * matrix + page % matrix : page;
        for (uint32_t k = 0; k < count; k++, from += step) {
            cb_reserve_back(kLeft, 1);
            a.copy(from, get_write_ptr(kLeft));
            noc_async_read_barrier();
            cb_push_back(kLeft, 1);
        }
    }
}

// Sums or maxima of tiles, element by element, by the vector unit in fp32, times a factor. The reader is ../fold_reader.cpp.
//
// Arguments: 0 first tile of the result, 1 number of tiles, 2 tiles of the tensor for each, 3 whether maxima are computed, otherwise
// sums, 4 the factor of a sum as the bits of an fp32.

#include "rows.h"

template <typename F, typename G>
ALWI void fold(uint32_t tiles, uint32_t each, F combine, G finish) {
    init_sfpu(kLeft, kOut);
    for (; tiles != 0; tiles--) {
        tile_regs_acquire();
        cb_wait_front(kLeft, 1);
        copy_tile(kLeft, 0, kTile);
        cb_pop_front(kLeft, 1);
        for (uint32_t k = 1; k < each; k++) {
            cb_wait_front(kLeft, 1);
            copy_tile(kLeft, 0, kOther);
            cb_pop_front(kLeft, 1);
            combine();
        }
        finish();
        pack(kTile, kOut);
    }
}

void kernel_main() {
    const uint32_t tiles = get_arg_val<uint32_t>(1), each = get_arg_val<uint32_t>(2), factor = get_arg_val<uint32_t>(4);
    if (get_arg_val<uint32_t>(3) != 0) {
        fold(tiles, each, [] {
            MATH((rows::each([] { using namespace rows; rows::take<kTile>(l0); rows::take<kOther>(l1); max(l0, l1); leave<kTile>(l0); })));
        }, [] {});
        return;
    }
    fold(tiles, each, [] {
        MATH((rows::each([] { using namespace rows; rows::take<kTile>(l0); rows::take<kOther>(l1); add(l0, l0, l1); leave<kTile>(l0); })));
    }, [factor] {
        MATH((rows::each_with(factor, [] { using namespace rows; rows::take<kTile>(l0); mul(l0, l0, l7); leave<kTile>(l0); })));
        (void)factor;
    });
}

// Elements in another type: between floats, and between floats and integers of 32 bits, towards zero. The packers round to bfloat16.
// The reader is ../tile_reader.cpp.
//
// Arguments: 0 first tile of the result, 1 number of tiles.

#include "integers.h"

void kernel_main() {
    each_tile([] {
        if constexpr (reprise::cb_format(kLeft) == RP_INT32) {
            MATH((reprise::sfpu::each(0, [] { using namespace integers; load_float(); store_exact(l0); })));
        } else if constexpr (reprise::cb_format(kOut) == RP_INT32) {
            MATH((reprise::sfpu::each(0, [] { using namespace integers; load(l0); to_int32(); store_integer(); })));
        }
    });
}

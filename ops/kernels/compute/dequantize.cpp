// Integers plus a number, times a factor. The reader is ../tile_reader.cpp.
//
// Arguments: 0 first tile of the result, 1 number of tiles. Common arguments: 0 the factor, 1 the number, both as the bits of an fp32.

#include "integers.h"

void kernel_main() {
    const uint32_t factor = get_common_arg_val<uint32_t>(0), number = get_common_arg_val<uint32_t>(1);
    each_tile([factor, number] {
#if defined(TRISC_MATH)
        using namespace integers;
        begin(0);
        loadi(l7, factor);
        loadi(l6, number);
        for (uint32_t i = 0; i < 32; i++) {
            load_float();
            add(l0, l0, l6);
            mul(l0, l0, l7);
            store_exact(l0);
        }
        end();
#endif
        (void)factor, (void)number;
    });
}

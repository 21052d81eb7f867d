// Prints in C++: numbers up to its argument, as values of a stream.
#define REPRISE_PRINTS 1
#include "api/dataflow/dataflow_api.h"
#include "debug/dprint.h"

void kernel_main() {
    const uint32_t n = get_arg_val<uint32_t>(0);
    for (uint32_t i = 0; i < n; i++) {
        DPRINT << "line " << i << " of " << HEX() << n << DEC() << ", half of it " << F32(1.5f) << SETW(4) << -2 << ENDL();
    }
}

// Computes the shards of integers in this core's own L1 in place, element by element. BRISC or NCRISC.
//
// Common arguments: 0 operation, 1 data type, 2 elements of a shard, 3 and 4 the circular buffers placed in the first and
// the second operand. Circular buffer 0 is placed in the result.

#include "compute.h"

void kernel_main() {
    const uint32_t op = rp_common_arg(0), type = rp_common_arg(1), count = rp_common_arg(2), size = size_of(type);
    const bool same = op == kRelu && type < kInt32;  // unsigned numbers have no sign
    const uint32_t out = get_write_ptr(0), a = get_write_ptr(rp_common_arg(3)), b = get_write_ptr(rp_common_arg(4));
    rp_invalidate_l1();
    for (uint32_t i = 0; i < count * size; i += size) {
        const uint32_t v = load(type, a + i);
        store(type, out + i, same ? v : compute(op, v, load(type, b + i)));
    }
    rp_publish();
}

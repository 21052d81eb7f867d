// Computes the shards that lie in this core's own L1, element by element, where they are. BRISC or NCRISC.
//
// Common arguments: 0 operation, 1 data type, 2 elements of a shard, 3 and 4 the circular buffers that lie in the first and
// the second operand. Circular buffer 0 lies in the result.

#include "compute.h"

void kernel_main() {
    const uint32_t op = rp_common_arg(0), type = rp_common_arg(1), count = rp_common_arg(2), size = size_of(type);
    const bool floats = is_float(type);
    const bool same = op == kRelu && type < kInt32;  // the sign of an unsigned number is none
    const uint32_t out = get_write_ptr(0), a = get_write_ptr(rp_common_arg(3)), b = get_write_ptr(rp_common_arg(4));
    rp_invalidate_l1();
    for (uint32_t i = 0; i < count * size; i += size) {
        const uint32_t v = load(type, a + i);
        store(type, out + i, same ? v : compute(op, floats, v, load(type, b + i)));
    }
    rp_publish();
}

// Blocks of both operands of blocks.cpp: the first core of a row reads those of the left operand and sends them to the others of
// the row, the first core of a column those of the right one.
//
// Arguments, 15 for each operand: 0 address, 1 first tile, 2 tiles from a row of the matrix to the next, 3 tiles from a block to the
// next, 4 and 5 rows and columns of a block, 6 blocks, 7 whether this core reads, 8 to 11 the rectangle of the others, 12 how
// many they are, 13 and 14 the core that reads. Semaphores 0 and 1 count who waits for a block of the left and the right operand, 2
// and 3 tell of one.
#include <stdint.h>

#include "api/dataflow/dataflow_api.h"
#include "hostdevcommon/common_values.hpp"

template <uint32_t cb>
static void block(uint32_t n) {
    const auto arg = [](uint32_t i) { return get_arg_val<uint32_t>(15 * cb + i); };
    constexpr auto description = TensorAccessorArgs<2 * cb>();
    const auto matrix = TensorAccessor(description, arg(0), get_tile_size(cb));
    const uint32_t rows = arg(4), columns = arg(5), tile = get_tile_size(cb);
    const uint32_t waiting = get_semaphore(cb), told = get_semaphore(2 + cb);
    auto* waiting_here = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(waiting);
    auto* told_here = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(told);
    cb_reserve_back(cb, rows * columns);
    const uint32_t start = get_write_ptr(cb);
    if (arg(7) == 0) {
        noc_semaphore_set(told_here, INVALID);
        noc_semaphore_inc(get_noc_addr(arg(13), arg(14), waiting), 1);
        noc_semaphore_wait(told_here, VALID);
        cb_push_back(cb, rows * columns);
        return;
    }
    uint32_t to = start;
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t c = 0; c < columns; c++, to += tile) {
            noc_async_read_tile(arg(1) + n * arg(3) + r * arg(2) + c, matrix, to);
        }
    }
    noc_async_read_barrier();
    noc_semaphore_wait(waiting_here, arg(12));
    noc_semaphore_set(waiting_here, 0);
    noc_async_write_multicast(start, get_noc_multicast_addr(arg(8), arg(9), arg(10), arg(11), start), to - start, arg(12));
    noc_async_writes_flushed();
    *told_here = VALID;
    noc_semaphore_set_multicast(told, get_noc_multicast_addr(arg(8), arg(9), arg(10), arg(11), told), arg(12));
    noc_async_write_barrier();
    cb_push_back(cb, rows * columns);
}

void kernel_main() {
    for (uint32_t n = 0; n < get_arg_val<uint32_t>(6); n++) {
        block<0>(n);
        block<1>(n);
    }
    noc_async_atomic_barrier();
}
